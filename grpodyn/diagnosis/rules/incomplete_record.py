"""The record is not whole."""

from __future__ import annotations

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

_SHOWN = 6
_SAYS = {
    "empty": "the run holds no row: nothing can be said about it",
    "interrupted": "the run was cut off: its writer died before it ended",
    "failed": "the run failed: it ended in an error",
    "running": "the run is still being written: this is its state up to now",
}


class IncompleteRecord(Rule):
    """The record is not whole."""

    id = "incomplete_record"
    title = "The record is not whole"
    meaning = (
        "The run was cut off, rows are missing or damaged, or an imported log is a sample of the history. What is not "
        "recorded cannot be found, so that silence of the other rules means less."
    )
    change = "Resume the run, repair the record (`grpodyn status --repair`), or export the whole history."
    may_be = ()
    config_key = "record.preset"
    reference = "docs/trace-schema.md"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        record = seen.record
        evidence = []
        if record.status in _SAYS:
            evidence.append(_SAYS[record.status])
        if not len(seen.steps) and record.status != "empty":
            evidence.append("the run holds no log of the trainer: only its weights, or its rollouts, can be looked at")
        if record.sampled:
            evidence.append("the history looks sampled: onsets are as coarse as its rows")
        evidence += record.problems[:_SHOWN]
        if len(record.problems) > _SHOWN:
            evidence.append(f"and {len(record.problems) - _SHOWN} more (`grpodyn status`)")
        if not evidence:
            return None
        unusable = record.status == "empty"
        quiet = record.status in ("finished", "running", "stopped_early") and record.imported and not unusable
        return self.found(
            "critical" if unusable else "info" if quiet or record.status == "running" else "warning",
            None,
            *evidence,
            patch={"record": {"preset": "standard"}} if unusable else None,
        )
