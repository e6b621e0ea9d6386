"""One run from its config to its end: train, show, stop on request, leave a whole record."""

from __future__ import annotations

from pathlib import Path

from grpodyn.config.batching import batch_plan, planned_steps
from grpodyn.config.run import RunConfig
from grpodyn.errors import UsageError
from grpodyn.training import checkpoints
from grpodyn.training.build import Training, build_trainer
from grpodyn.training.display import Display
from grpodyn.training.heldout import EvaluateHeldOut
from grpodyn.training.progress import ProgressDisplay
from grpodyn.training.quiet import silence_libraries
from grpodyn.training.stopping import StopOnSignal
from grpodyn.training.summary import base_is_known


def train(config: RunConfig, run_dir: Path, display: Display, *, resume: bool = False) -> Path:
    """Train what a config describes and record it; return the directory of the record.

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
    silence_libraries()
    checkpoint = checkpoints.last_whole(run_dir / checkpoints.FOLDER) if resume else None
    with StopOnSignal() as stop:
        training = build_trainer(config, run_dir, append=resume)
        if resume:
            _prepare_to_go_on(config, training, run_dir, checkpoint, display)
        training.trainer.add_callback(checkpoints.CheckpointClock())
        if config.evaluate is not None and training.held_out is not None:
            known = resume and base_is_known(run_dir)
            tokenizer = training.trainer.processing_class
            training.trainer.add_callback(
                EvaluateHeldOut(config.evaluate, training.held_out, tokenizer, training.recorder, display, known)
            )
        training.trainer.add_callback(stop)
        training.trainer.add_callback(ProgressDisplay(display, lambda: training.recorder.cost.fraction))
        _run(training, checkpoint, display)
    return training.recorder.run_dir


def _prepare_to_go_on(
    config: RunConfig, training: Training, run_dir: Path, checkpoint: tuple[int, Path] | None, display: Display
) -> None:
    for partial in checkpoints.remove_partial(run_dir / checkpoints.FOLDER):
        display.say(f"removed {partial.name}: it was only half written")
    if checkpoint is None:
        display.say("there is no checkpoint yet: starting over from step 0, as a new segment of the run")
        return
    step = checkpoint[0]
    total = planned_steps(config.grpo, batch_plan(config.grpo), len(training.trainer.train_dataset))
    if step >= total:
        raise UsageError(f"{run_dir} has all of its {total} steps; to train on, resume with --set grpo.max_steps=MORE")
    display.say(f"going on from the checkpoint of step {step}")


def _run(training: Training, checkpoint: tuple[int, Path] | None, display: Display) -> None:
    status = "failed"
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
