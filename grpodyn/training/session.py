"""One run from its config to its end: train, show, stop on request, leave a whole record."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grpodyn.config.batching import batch_plan, planned_steps, world_size
from grpodyn.config.run import RunConfig
from grpodyn.diagnosis.callback import DiagnoseLive
from grpodyn.errors import UsageError
from grpodyn.trace.manifest import RunStatus
from grpodyn.training import checkpoints
from grpodyn.training.build import Training, build_trainer
from grpodyn.training.display import Display
from grpodyn.training.heldout import EvaluateHeldOut
from grpodyn.training.progress import ProgressDisplay
from grpodyn.training.quiet import quiet_libraries
from grpodyn.training.stopping import StopOnSignal
from grpodyn.training.summary import base_is_known

logger = logging.getLogger("grpodyn")

MODEL = "model"
"""Folder of the trained weights or adapter in a run directory."""


class _ToDisplay(logging.Handler):
    """Shows what grpodyn logs, such as the recorder's line about what it records."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.say(self.format(record))


@contextmanager
def _log_shown(display: Display) -> Iterator[None]:
    handler, level, propagate = _ToDisplay(display), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # Shown here; handlers of the root logger would print each line a second time.
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@dataclass(frozen=True)
class Trained:
    """Where a training that has ended left what."""

    run_dir: Path
    """The directory that was really used."""
    unrecorded: str | None
    """Why there is no record, if there is none."""


def train(config: RunConfig, run_dir: Path, display: Display, *, resume: bool = False) -> Trained:
    """Train what a config describes, and record it.

    SIGINT or SIGTERM ends training after the current step with a checkpoint; a second one raises KeyboardInterrupt.

    Args:
        config: the run config.
        run_dir: an empty or absent directory, or the run to go on with.
        display: where progress is shown.
        resume: go on from the last whole checkpoint in `run_dir`, or from the start if there is none.

    Raises:
        ConfigError, UnknownNameError: the config does not describe a run that can start; nothing is written then.
        UsageError: there is nothing left to train.
    """
    checkpoint = checkpoints.last_whole(run_dir / checkpoints.FOLDER) if resume else None
    with StopOnSignal() as stop, _log_shown(display), quiet_libraries():
        asking = [checkpoints.CheckpointClock(), stop]
        training = build_trainer(config, run_dir, append=resume, before_recorder=asking)
        stop.then = training.recorder.hurry
        if resume:
            _prepare_to_go_on(config, training, run_dir, checkpoint, display)
        if config.evaluate is not None and (training.held_out is not None or training.retention is not None):
            known = resume and base_is_known(run_dir)
            tokenizer = training.trainer.processing_class
            evaluation = EvaluateHeldOut(
                config.evaluate, training.held_out, tokenizer, training.recorder, display, known, training.retention
            )
            training.trainer.add_callback(evaluation)
        training.trainer.add_callback(DiagnoseLive(training.recorder, display.say))
        training.trainer.add_callback(ProgressDisplay(display, lambda: training.recorder.cost.fraction))
        _run(training, checkpoint, display)
        recorder = training.recorder
        if recorder.refused is not None:
            # The recorder saves the model with its record; what was trained is worth keeping without one too.
            training.trainer.save_model(str(recorder.run_dir / MODEL))
        # Absolute for whatever the training does to its working directory; for people as they wrote it.
        used = recorder.run_dir if run_dir.is_absolute() else Path(os.path.relpath(recorder.run_dir))
        return Trained(used, recorder.refused)


def _prepare_to_go_on(
    config: RunConfig, training: Training, run_dir: Path, checkpoint: tuple[int, Path] | None, display: Display
) -> None:
    for partial in checkpoints.remove_partial(run_dir / checkpoints.FOLDER):
        display.say(f"removed {partial.name}: it was only half written")
    if checkpoint is None:
        display.say("there is no checkpoint yet: starting over from step 0, as a new segment of the run")
        return
    step = checkpoint[0]
    total = planned_steps(config.grpo, batch_plan(config.grpo, world_size()), len(training.trainer.train_dataset))
    if step >= total:
        raise UsageError(f"{run_dir} has all of its {total} steps; to train on, resume with --set grpo.max_steps=MORE")
    display.say(f"going on from the checkpoint of step {step}")


def _run(training: Training, checkpoint: tuple[int, Path] | None, display: Display) -> None:
    status: RunStatus = "failed"
    display.start()
    try:
        training.trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint[1]))
        status = "finished"
    except KeyboardInterrupt:
        status = "stopped_early"
        raise
    finally:
        display.stop()
        # A run that ended by itself has been closed by its recorder; then this does nothing.
        training.recorder.close(status)
