"""Runs every rule over what was observed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grpodyn.diagnosis.finding import SEVERITIES, Finding, Severity
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import rules


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


def _explained(finding: Finding, findings: list[Finding]) -> Finding:
    """Return a finding, told as a consequence where another one is its cause: two alarms for one fault hide it."""
    causes = [
        other.id for other in findings if other.id in rules()[finding.id].follows_from and other.severity != "info"
    ]
    if not causes:
        return finding
    sentence = f"this follows from {', '.join(causes)}"
    return replace(
        finding, severity="info", evidence=(*finding.evidence, sentence), patch=None, follows_from=tuple(causes)
    )


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
    findings = [_explained(finding, findings) for finding in findings]
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
