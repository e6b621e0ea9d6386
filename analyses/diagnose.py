"""What is going wrong in a run, since when, and which setting mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from grpodyn.analysis import Analysis
from grpodyn.diagnosis import Diagnosis, diagnose
from grpodyn.diagnosis.of_run import observe_run

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


class Diagnose(Analysis):
    """Findings with onset, evidence and the config key to change, for every rule of `grpodyn/diagnosis/rules/`."""

    name: ClassVar[str] = "diagnose"
    title: ClassVar[str] = "What is going wrong: findings with onset, evidence and the setting to change"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = "Each rule names its own; docs/diagnose.md lists them"

    def run(self, run: Run, **options: Any) -> Diagnosis:
        """Return the findings. A run that is empty or cut off is diagnosed too, as that.

        Args:
            run: the opened run.
            options: `only`: ids of the rules to check.
        """
        return diagnose(observe_run(run), options.get("only"))
