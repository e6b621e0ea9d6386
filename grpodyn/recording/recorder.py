"""The recorder: measures training without changing it. A callback for any transformers Trainer, or hooks in a loop.

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
from typing import Any, Self

import torch
from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback

from grpodyn.config.record import RecordConfig
from grpodyn.naming.shards import shares
from grpodyn.recording.arguments import check_loop, check_recorder
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.cost import RecorderCost
from grpodyn.recording.follower import Follower
from grpodyn.recording.loop import Loop, Recording
from grpodyn.recording.opening import Start
from grpodyn.recording.ranks import Ranks, join
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

    Raises:
        TypeError: `config` is no `RecordConfig`, such as the name of a preset, or `manifest` no mapping.
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
        check_recorder(config, manifest)
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
        self._session: Recording | None = None
        self._loop: Loop | None = None
        self._begun = False
        self._attached = self._warned = False
        """Whether a loop was ever attached, and whether a step without one was warned of."""
        self._hidden: str | None = None
        """Why the update is made before `on_pre_optimizer_step`, if it is."""
        self._boundary = Boundary(self._refuse)

    @property
    def recorded(self) -> bool:
        """Whether `run_dir` holds what has been recorded."""
        return self._begun

    @property
    def writer(self) -> TraceWriter | None:
        """The run's writer while training runs."""
        return self._session.writer if self._session is not None else None

    def add_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the results of an evaluation that the trainer does not know of."""
        self._run("evaluation", lambda session: session.evaluation(step, metrics))

    def hurry(self) -> None:
        """Leave only a few seconds for what the end of the recording waits for; a signal's handler may call it."""
        if isinstance(self._session, Session):
            self._session.hurry()

    def close(self, status: RunStatus = "finished") -> None:
        """End the recording of a loop, or of a training that ended without reaching `on_train_end`."""
        if self._save_model and self._loop is not None and status == "finished":
            self._run("model", lambda session: session.save())
        self._close(status, final=True)

    # For a loop that no trainer runs.

    def attach(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        start_step: int = 0,
        max_steps: int | None = None,
        tokenizer: Any = None,
    ) -> Self:
        """Record a training loop of one's own; `step` then ends each of its steps, and `close` (or `with`) the run.

        Gradients and weights are read by hooks of the optimizer's `step`, each call of which is one step of the record,
        whatever the loop does to accumulate gradients. Called again with the same model, it goes on with another
        optimizer.

        Args:
            model: what is trained.
            optimizer: what steps it; a wrapper of accelerate will do.
            start_step: updates made before, if the loop resumes: the run in the directory then goes on.
            max_steps: the last step, if it is known; else `close` measures it.
            tokenizer: encodes `record.activation_prompts`, for `activation_shift`; is saved with the model.

        Returns:
            The recorder itself.

        Raises:
            TypeError, ValueError: the model is no module, or steps are none that can be. What fails later, while
                training runs, is noted and never raised.

        >>> recorder = Recorder("runs/a")
        >>> with recorder.attach(model, optimizer):  # doctest: +SKIP
        ...     for batch in batches:
        ...         loss = model(**batch).loss
        ...         loss.backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         recorder.step({"loss": loss})
        """
        start_step, max_steps = check_loop(model, start_step, max_steps)
        self._attached = True
        if self._loop is not None and self._loop.model is model and self._session is not None:
            self._run("optimizer", lambda session: session.change_optimizer(optimizer))
        else:
            self._close("finished", final=True)
            if not self._may_start(is_first_rank(), model):
                return self
            start = Start(model, None, optimizer, None, start_step, max_steps, self._append, tokenizer)
            self._boundary.run("start of recording", self._begin, start)
            self._loop = Loop(model, start_step, self._run)
        self._boundary.run("hooks of the optimizer", self._loop.watch, optimizer)
        self.cost.step_begins()
        return self

    def step(self, metrics: Mapping[str, Any] | None = None) -> None:
        """End a step of the loop that was attached, and record its scalars (numbers, or tensors of one element).

        After `close` there is nothing to record into, which is warned of once.

        Raises:
            ValueError: no loop was attached.
        """
        if self._loop is not None:
            self._boundary.run("end of a step", self._loop.step, metrics or {})
        elif not self._attached and self._session is None:
            raise ValueError(
                "step() was called before attach(model, optimizer): nothing can be recorded. Attach first, or, with a "
                "transformers or TRL trainer, give it the recorder among its callbacks and do not call step()"
            )
        elif not self._warned and self.refused is None:
            self._warned = True
            logger.warning(
                "step() records nothing: %s",
                "a trainer's steps are recorded by themselves" if self._session is not None else "recording has ended",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.close("stopped_early" if issubclass(kind, KeyboardInterrupt) else "failed")

    # The trainer's events. At `on_step_end` gradients are gone and the scheduler has moved on.

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start recording: take the inventory, find W_0, open the trace."""
        # Training that starts again (a batch size was too large) leaves its last try behind.
        self._close("failed", final=False)
        if self._may_start(state.is_world_process_zero, kwargs["model"]):
            last = int(state.max_steps) if state.max_steps and state.max_steps > 0 else None
            trainer, step = find_trainer(self), int(state.global_step)
            tokenizer = kwargs.get("processing_class")
            self._hidden = _hidden_update(kwargs["optimizer"])
            start = Start(kwargs["model"], trainer, kwargs["optimizer"], args, step, last, self._append, tokenizer)
            self._boundary.run("start of recording", self._begin, start)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._run("start of a step", lambda session: session.step_begins(state.global_step + 1))
        why = self._hidden
        if why is not None:
            self._run("before the optimizer", lambda session: session.before_optimizer(state.global_step + 1, why))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read what is there before the update."""
        if self._hidden is None:
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
            self._run("model", lambda session: session.save())
        early = state.global_step < state.max_steps
        # The best checkpoint, loaded at the end, is not the last step.
        final = not (args.load_best_model_at_end and state.best_model_checkpoint)
        self._close("stopped_early" if early else "finished", final=final)

    def _may_start(self, is_first: bool, model: nn.Module) -> bool:
        if is_first:
            _let_log_be_seen()
        if disabled():
            self.refused = "GRPODYN_DISABLE is set"
            logger.info("recording is off: %s", self.refused)
            return False
        if is_first:
            self.cost, self.refused = RecorderCost(), None
        return is_first or bool(shares(model))

    def _begin(self, start: Start) -> None:
        with self.cost.foreground(), one_thread():
            ranks = join(start.model)
            recording: Recording | None = None
            try:
                if ranks is None or ranks.rank == 0:
                    recording = self._lead(start, ranks)
                else:
                    recording = Follower(self._config, start, ranks)
            finally:
                if ranks is not None:
                    ranks.confirm(*((None,) if recording is None else (recording.names, recording.table)))
        if isinstance(recording, Session) or (ranks is not None and ranks.failed is None):
            self._session = recording

    def _lead(self, start: Start, ranks: Ranks | None) -> Session | None:
        if not is_first_rank():
            return None
        session = Session(self._asked_for, self._config, start, self.cost, self._manifest, ranks)
        self.run_dir, self._begun = session.run_dir, True
        return session

    def _run(self, where: str, action: Callable[[Recording], None]) -> None:
        session = self._session
        if session is not None:
            with self.cost.foreground(), one_thread():
                session.boundary.run(where, action, session)

    def _close(self, status: RunStatus, *, final: bool) -> None:
        session, self._session = self._session, None
        if self._loop is not None:
            self._loop.remove()
            self._loop = None
        if session is not None:
            with self.cost.foreground(), one_thread():
                session.boundary.run("end of recording", session.close, status, final=final)
                # Whatever failed above, the trace is closed.
                if session.writer is not None:
                    session.boundary.run("end of recording", session.writer.close, status)

    def _refuse(self, where: str, why: str) -> None:
        self.refused = f"{where}: {why}"


def _hidden_update(optimizer: Any) -> str | None:
    # accelerate's wrapper of a DeepSpeed engine lets it step at the end of the backward pass.
    if any(kind.__name__ == "DeepSpeedOptimizerWrapper" for kind in type(optimizer).__mro__):
        return "DeepSpeed takes its step, and clears its gradients, before anything else can look at them"
    return None


def is_first_rank() -> bool:
    """Return whether this process is the one of its ranks that records."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0


def _let_log_be_seen() -> None:
    """Show what the recorder says, where nobody has set logging up: a line that nobody sees tells nobody anything."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("grpodyn: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


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
