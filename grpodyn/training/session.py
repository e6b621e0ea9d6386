"""One run from its config to its end: train, show, stop on request, leave a whole record."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grpodyn.config.batching import batch_plan, planned_steps, world_size
from grpodyn.config.run import RunConfig
from grpodyn.diagnosis.callback import DiagnoseLive
from grpodyn.errors import UsageError
from grpodyn.recording.recorder import Recorder, is_first_rank
from grpodyn.trace.manifest import Manifest, RunStatus
from grpodyn.training import checkpoints, data, stage_moves
from grpodyn.training.build import Training, build_leg, build_trainer
from grpodyn.training.curriculum import (
    NotViableError,
    StageGate,
    StageNotes,
    StageTest,
    StageWatch,
    earlier_tests,
)
from grpodyn.training.display import Display
from grpodyn.training.heldout import EvaluateHeldOut
from grpodyn.training.legs import Leg, ends_run, legs, recorded_past, remaining
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
        planned = legs(config)
        if planned:
            recorder = _train_legs(config, planned, run_dir, display, stop, resume, checkpoint)
        else:
            training = build_trainer(
                config, run_dir, append=resume, before_recorder=[checkpoints.CheckpointClock(), stop]
            )
            if resume:
                _prepare_to_go_on(run_dir, checkpoint, display)
                _refuse_if_done(config, training, run_dir, checkpoint)
            _watch(config, training, run_dir, display, stop, known=resume and base_is_known(run_dir))
            _run(training, checkpoint, display)
            recorder = training.recorder
            _save_unrecorded(training)
        # Absolute for whatever the training does to its working directory; for people as they wrote it.
        used = recorder.run_dir if run_dir.is_absolute() else Path(os.path.relpath(recorder.run_dir))
        return Trained(used, recorder.refused)


def _train_legs(
    config: RunConfig,
    planned: Sequence[Leg],
    run_dir: Path,
    display: Display,
    stop: StopOnSignal,
    resume: bool,
    checkpoint: tuple[int, Path] | None,
) -> Recorder:
    """Train a run's stages in turn, each from the checkpoint of the one before; return the last recorder."""
    on_stall = None if config.curriculum is None else config.curriculum.on_stall
    known = recorded_past(run_dir, 0 if checkpoint is None else checkpoint[0]) if resume else []
    todo = remaining(planned, known, on_stall)
    if resume:
        _prepare_to_go_on(run_dir, checkpoint, display)
    base_known, append = resume and base_is_known(run_dir), resume
    while True:
        leg, done = todo[0], 0 if checkpoint is None else checkpoint[0]
        display.say(f"stage {leg.number} of {len(planned)}, {leg.name}, from step {leg.start}")
        if checkpoint is not None and done == leg.start and is_first_rank():
            lost = stage_moves.keep_start(run_dir, leg.number, checkpoint[1])
            if lost is not None:
                display.say(f"what {leg.name} moves by itself will not be known: {lost}")
        notes = StageNotes(leg)
        test = _stage_test(config, leg, run_dir, done)
        asking = [checkpoints.CheckpointClock(), stop, notes]
        if test is not None:
            asking.append(StageWatch(test, notes, display))
        training = build_leg(config, leg, run_dir, done, append=append, before_recorder=asking)
        notes.recorder = training.recorder
        if test is not None:
            test.tokenizer = training.trainer.processing_class
            group, temperature = training.trainer.num_generations, training.trainer.args.temperature
            training.trainer.add_callback(StageGate(test, group, temperature, training.recorder, notes, display))
        _watch(config, training, run_dir, display, stop, known=base_known)
        try:
            _run(training, checkpoint, display)
        except NotViableError:
            stage_moves.forget_start(run_dir, leg.number)
            return training.recorder
        _save_unrecorded(training)
        run_dir, append, base_known = training.recorder.run_dir, True, True
        if leg.start and notes.outcome is not None and training.recorder.refused is None and is_first_rank():
            _note_movement(run_dir, leg, int(training.trainer.state.global_step))
        todo = todo[1:]
        if not todo or ends_run(leg, notes.outcome, on_stall):
            return training.recorder
        if stop.asked:
            # The stage had come to its end all the same; the run has not.
            if training.recorder.refused is None and is_first_rank():
                Manifest.read(run_dir).updated(status="stopped_early").write(run_dir)
            return training.recorder
        checkpoint = checkpoints.last_whole(run_dir / checkpoints.FOLDER)
        end = int(training.trainer.state.global_step)
        if checkpoint is None or checkpoint[0] != end:
            raise UsageError(
                f"the stage {leg.name} left no whole checkpoint of its last step {end} in {run_dir}, from which the "
                "next one begins; see grpo.save_strategy"
            )
        after_sft = end if leg.kind == "sft" else leg.after_sft
        todo[0] = replace(todo[0], start=end, after_sft=after_sft)
        # The next stage loads the model anew: two at once may not fit.
        del training
        gc.collect()


def _note_movement(run_dir: Path, leg: Leg, step: int) -> None:
    """Write into a stage's segment how far it has moved the model from where it began."""
    last = checkpoints.last_whole(run_dir / checkpoints.FOLDER)
    end = last[1] if last is not None and last[0] == step else run_dir / MODEL
    fields = stage_moves.own_movement(run_dir, leg.number, end)
    manifest = Manifest.read(run_dir)
    *before, segment = manifest.segments
    manifest.updated(segments=[*before, {**segment, **fields}]).write(run_dir)
    stage_moves.forget_start(run_dir, leg.number)


def _stage_test(config: RunConfig, leg: Leg, run_dir: Path, done: int) -> StageTest | None:
    rule = config.curriculum
    if rule is None or not leg.in_curriculum:
        return None
    examples = data.held_out(leg.task, rule.split, rule.items)
    return StageTest(rule, leg, examples, earlier_tests(run_dir, leg, done) if done > leg.start else [])


def _watch(
    config: RunConfig, training: Training, run_dir: Path, display: Display, stop: StopOnSignal, *, known: bool
) -> None:
    """Add what looks on: evaluation, diagnosis and display."""
    stop.then = training.recorder.hurry
    measured = (training.held_out, training.retention, training.sampled)
    if config.evaluate is not None and any(one is not None for one in measured):
        tokenizer = training.trainer.processing_class
        evaluation = EvaluateHeldOut(
            config.evaluate,
            training.held_out,
            tokenizer,
            training.recorder,
            display,
            known,
            training.retention,
            training.sampled,
        )
        training.trainer.add_callback(evaluation)
    training.trainer.add_callback(DiagnoseLive(training.recorder, display.say))
    training.trainer.add_callback(ProgressDisplay(display, lambda: training.recorder.cost.fraction))


def _save_unrecorded(training: Training) -> None:
    recorder = training.recorder
    if recorder.refused is not None:
        # The recorder saves the model with its record; what was trained is worth keeping without one too.
        training.trainer.save_model(str(recorder.run_dir / MODEL))


def _prepare_to_go_on(run_dir: Path, checkpoint: tuple[int, Path] | None, display: Display) -> None:
    for partial in checkpoints.remove_partial(run_dir / checkpoints.FOLDER):
        display.say(f"removed {partial.name}: it was only half written")
    if checkpoint is None:
        display.say("there is no checkpoint yet: starting over from step 0, as a new segment of the run")
    else:
        display.say(f"going on from the checkpoint of step {checkpoint[0]}")


def _refuse_if_done(config: RunConfig, training: Training, run_dir: Path, checkpoint: tuple[int, Path] | None) -> None:
    step = 0 if checkpoint is None else checkpoint[0]
    total = planned_steps(config.grpo, batch_plan(config.grpo, world_size()), len(training.trainer.train_dataset))
    if step >= total:
        raise UsageError(f"{run_dir} has all of its {total} steps; to train on, resume with --set grpo.max_steps=MORE")


def _run(training: Training, checkpoint: tuple[int, Path] | None, display: Display) -> None:
    status: RunStatus = "failed"
    display.start()
    try:
        training.trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint[1]))
        status = "finished"
    except (KeyboardInterrupt, NotViableError):
        status = "stopped_early"
        raise
    finally:
        display.stop()
        # A run that ended by itself has been closed by its recorder; then this does nothing.
        training.recorder.close(status)
