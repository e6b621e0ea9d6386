"""A trainer's callback that says what goes wrong while it goes wrong, and writes it into the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from grpodyn.diagnosis.finding import Finding, Severity
from grpodyn.diagnosis.live import LiveDiagnosis
from grpodyn.diagnosis.rule import rules
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.recorder import Recorder

logger = logging.getLogger("grpodyn")

_NAME = "diagnosis"


class DiagnoseLive(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Checks each row of the trainer's log, and says each finding once; never stops a training.

    Nor does anything that it does raise into one: what fails is logged, and is an event of the recorder's run.

    Args:
        recorder: findings become events of its run, if it records.
        say: where a finding is said; the log of grpodyn if not given.
        level: findings under it are not said.
    """

    def __init__(
        self,
        recorder: Recorder | None = None,
        say: Callable[[str], None] | None = None,
        level: Severity = "warning",
    ) -> None:
        self._recorder = recorder
        self._say = say if say is not None else logger.warning
        self._level = level
        self._live: LiveDiagnosis | None = None
        self._boundary = Boundary(lambda where, why: self._note(f"{where} failed", why), "grpodyn")
        self._step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start anew."""
        self._live = None
        self._boundary.run(_NAME, self._begin, args, kwargs.get("model"))

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Check a row."""
        self._boundary.run(_NAME, self._check, state, logs)

    def _begin(self, args: Any, model: Any) -> None:
        configs = getattr(model, "peft_config", None) or {}
        lora = next(iter(configs.values())).to_dict() if configs else None
        settings = args.to_dict() if hasattr(args, "to_dict") else {}
        self._live = LiveDiagnosis(settings, lora, self._level)

    def _check(self, state: Any, logs: Mapping[str, Any] | None) -> None:
        if self._live is None or not state.is_world_process_zero:
            return
        self._step = int(state.global_step)
        for finding in self._live.row(self._step, logs or {}):
            self._tell(finding)

    def _tell(self, finding: Finding) -> None:
        since = f" since step {finding.onset_step}" if finding.onset_step is not None else ""
        self._say(f"{finding.severity}: {rules()[finding.id].title}{since}: {finding.evidence[0]}")
        self._note(f"finding {finding.id}", "; ".join(finding.evidence), severity=finding.severity)

    def _note(self, what: str, why: str, **fields: Any) -> None:
        writer = self._recorder.writer if self._recorder is not None else None
        if writer is not None:
            writer.event(self._step, what, why, **fields)
