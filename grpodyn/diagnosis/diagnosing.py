"""Runs every rule over what was observed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grpodyn.diagnosis.finding import SEVERITIES, Finding, Severity, at_least
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import rules
from grpodyn.diagnosis.series import smoothing


@dataclass(frozen=True)
class Unchecked:
    """A rule that could not be checked, and why."""

    id: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """What was found, what was looked for, and what could not be."""

    source: str
    imported: bool
    rows: int
    last_step: int
    findings: tuple[Finding, ...]
    """The gravest first, then the earliest."""
    checked: tuple[str, ...]
    """Ids of the rules that could be checked."""
    unchecked: tuple[Unchecked, ...]
    incomplete: tuple[str, ...]
    """What the record lacks, in sentences; empty if it is whole."""

    @property
    def worst(self) -> Severity | None:
        """The gravest severity, None if nothing was found."""
        return max((f.severity for f in self.findings), key=SEVERITIES.index, default=None)


def _explained(finding: Finding, findings: list[Finding], slack: float) -> Finding:
    """Return a finding, told as a consequence where another one is its cause: two alarms for one fault hide it."""
    causes = [
        other.id
        for other in findings
        if other.id in rules()[finding.id].follows_from and _can_cause(other, finding, slack)
    ]
    if not causes:
        return finding
    sentence = f"this follows from {', '.join(causes)}"
    return replace(
        finding, severity="info", evidence=(*finding.evidence, sentence), patch=None, follows_from=tuple(causes)
    )


def _can_cause(cause: Finding, consequence: Finding, slack: float) -> bool:
    """Return whether a finding can be the whole cause of another: it is as grave, and was there when that began."""
    if cause.severity == "info" or not at_least(cause.severity, consequence.severity):
        return False
    if cause.onset_step is None or consequence.onset_step is None:
        return True
    return cause.onset_step <= consequence.onset_step + slack


def _slack(steps: NDArray[np.int64]) -> float:
    """Return by how many steps two onsets of one fault may differ: both are read from smoothed series."""
    return smoothing(len(steps)) * float(np.ptp(steps)) / (len(steps) - 1) if len(steps) > 1 else 0.0


def diagnose(seen: Observations, only: frozenset[str] | None = None) -> Diagnosis:
    """Return what rules find.

    Args:
        seen: what was observed.
        only: ids of the rules to check; all if not given.
    """
    findings: list[Finding] = []
    checked: list[str] = []
    unchecked: list[Unchecked] = []
    for name, rule in rules().items():
        if only is not None and name not in only:
            continue
        why = rule.missing(seen)
        if why is not None:
            unchecked.append(Unchecked(name, why))
            continue
        checked.append(name)
        finding = rule.check(seen)
        if finding is not None:
            findings.append(finding)
    slack = _slack(seen.steps)
    findings = [_explained(finding, findings, slack) for finding in findings]
    findings.sort(key=lambda f: (-SEVERITIES.index(f.severity), f.onset_step if f.onset_step is not None else 0, f.id))
    return Diagnosis(
        source=seen.source,
        imported=seen.record.imported,
        rows=len(seen.steps),
        last_step=int(seen.steps.max()) if len(seen.steps) else -1,
        findings=tuple(findings),
        checked=tuple(checked),
        unchecked=tuple(unchecked),
        incomplete=seen.record.problems,
    )
