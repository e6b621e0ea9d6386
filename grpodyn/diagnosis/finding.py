"""What a rule says when it has found something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
"""From what is worth knowing to what makes going on pointless."""


@dataclass(frozen=True)
class Finding:
    """One thing that is going wrong, or worth knowing."""

    id: str
    severity: Severity
    onset_step: int | None
    """The first step that shows it; None where it has no beginning."""
    evidence: tuple[str, ...]
    """Sentences with this run's own figures."""
    may_be: tuple[str, ...] = ()
    """What it may be confused with."""
    config_key: str | None = None
    """The key of the run config to change."""
    patch: Mapping[str, Any] | None = None
    """A part of a run config that makes the change; None where no value follows from what was observed."""
    follows_from: tuple[str, ...] = ()
    """Findings that explain this one."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """The numbers in the evidence, by name."""


def at_least(severity: Severity, level: Severity) -> bool:
    """Return whether a severity reaches a level.

    >>> at_least("critical", "warning"), at_least("info", "warning")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(level)
