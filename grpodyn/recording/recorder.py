"""The recorder: a callback for any transformers Trainer that measures training without changing it.

>>> from grpodyn import Recorder
>>> recorder = Recorder("runs/a")       # GRPOTrainer(…, callbacks=[recorder])
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from torch import nn
from transformers import TrainerCallback

from grpodyn.config.record import RecordConfig
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.cost import RecorderCost
from grpodyn.recording.opening import Start
from grpodyn.recording.session import Session
from grpodyn.recording.threads import one_thread
from grpodyn.trace.manifest import RunStatus
from grpodyn.trace.writer import TraceWriter

logger = logging.getLogger("grpodyn")


def disabled() -> bool:
    """Return whether the environment turns recording off (`GRPODYN_DISABLE=1`)."""
    return os.environ.get("GRPODYN_DISABLE", "") not in ("", "0")


class Recorder(TrainerCallback):  # type: ignore[misc]
    """Records a training run into a directory. Nothing it does raises into the training.

    A fresh start on a used directory records into `<run_dir>-2`; a trainer that resumes appends to the run there.
    Put it after callbacks that ask for checkpoints: a step's rows are committed before its checkpoint is written.

    Args:
        run_dir: the run's directory.
        config: what is measured and how often; the standard preset if not given.
        append: whether the run in the directory goes on even if training starts over from step 0 (it was killed before
            its first checkpoint). A trainer that resumes from a checkpoint appends anyway.
        save_model: whether the trained model (or adapter) is saved into `model/` at the end.
        manifest: more fields of the run's manifest, such as `config`.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str] = "runs/recorded",
        config: RecordConfig | None = None,
        *,
        append: bool = False,
        save_model: bool = False,
        manifest: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_dir = Path(run_dir)
        """The directory really used, once training has begun."""
        self.cost = RecorderCost()
        """What recording has cost so far."""
        self.refused: str | None = None
        """Why nothing is recorded, if nothing is."""
        self._asked_for = Path(run_dir)
        self._config = config if config is not None else RecordConfig()
        self._append = append
        self._save_model = save_model
        self._manifest = dict(manifest or {})
        self._session: Session | None = None
        self._boundary = Boundary(self._refuse)

    @property
    def writer(self) -> TraceWriter | None:
        """The run's writer while training runs."""
        return self._session.writer if self._session is not None else None

    def add_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the results of an evaluation that the trainer does not know of."""
        self._run("evaluation", lambda session: session.evaluation(step, metrics))

    def close(self, status: RunStatus = "finished") -> None:
        """End the recording; for a training that ended without reaching `on_train_end` (an interrupt, an error)."""
        self._close(status, final=True)

    # The trainer's events. At `on_step_end` gradients are gone and the scheduler has moved on.

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start recording: take the inventory, find W_0, open the trace."""
        # Training that starts again (a batch size was too large) leaves its last try behind.
        self._close("failed", final=False)
        if disabled():
            self.refused = "GRPODYN_DISABLE is set"
            logger.info("recording is off: %s", self.refused)
        elif state.is_world_process_zero:
            self.cost, self.refused = RecorderCost(), None
            self._boundary.run("start of recording", self._begin, args, state, kwargs["model"], kwargs["optimizer"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._run("start of a step", lambda session: session.step_begins(state.global_step + 1))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read what is there before the update."""
        self._run("before the optimizer", lambda session: session.before_optimizer(state.global_step + 1))

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read what the update did."""
        self._run("after the optimizer", lambda session: session.after_optimizer(state.global_step + 1))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step."""
        stopping, saving = control.should_training_stop, control.should_save
        self._run(
            "end of a step", lambda session: session.step_ends(state.global_step, stopping=stopping, saving=saving)
        )

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the trainer's scalars."""
        saving = control.should_save
        self._run("log", lambda session: session.log(state.global_step, logs or {}, saving=saving))

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record an evaluation's results."""
        self.add_evaluation(state.global_step, metrics or {})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording, and save the model if asked."""
        if self._session is None:
            return
        if self._save_model:
            self._boundary.run("model", self._save, kwargs["model"], kwargs.get("processing_class"))
        early = state.global_step < state.max_steps
        # The best checkpoint, loaded at the end, is not the last step.
        final = not (args.load_best_model_at_end and state.best_model_checkpoint)
        self._close("stopped_early" if early else "finished", final=final)

    def _begin(self, args: Any, state: Any, model: nn.Module, optimizer: Any) -> None:
        last = int(state.max_steps) if state.max_steps and state.max_steps > 0 else None
        start = Start(model, find_trainer(self), optimizer, args, int(state.global_step), last, self._append)
        with self.cost.foreground(), one_thread():
            self._session = Session(self._asked_for, self._config, start, self.cost, self._manifest)
        self.run_dir = self._session.run_dir

    def _run(self, where: str, action: Callable[[Session], None]) -> None:
        session = self._session
        if session is not None:
            with self.cost.foreground(), one_thread():
                session.boundary.run(where, action, session)

    def _close(self, status: RunStatus, *, final: bool) -> None:
        session, self._session = self._session, None
        if session is not None:
            with self.cost.foreground(), one_thread():
                session.boundary.run("end of recording", session.close, status, final=final)
                # Whatever failed above, the trace is closed.
                session.boundary.run("end of recording", session.writer.close, status)

    def _save(self, model: nn.Module, tokenizer: Any) -> None:
        unwrapped: Any = model
        unwrapped.save_pretrained(self.run_dir / "model")
        if tokenizer is not None:
            tokenizer.save_pretrained(self.run_dir / "model")

    def _refuse(self, where: str, why: str) -> None:
        self.refused = f"{where}: {why}"


def find_trainer(callback: TrainerCallback) -> Any:
    """Return the trainer that is calling this callback, or None.

    A callback is not handed its trainer. It is the `self` of a caller up the stack whose callback handler holds this
    very callback, which no other object can be mistaken for.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        candidate = frame.f_locals.get("self")
        handler = getattr(candidate, "callback_handler", None)
        if handler is not None and any(known is callback for known in getattr(handler, "callbacks", ())):
            return candidate
        frame = frame.f_back
    return None
