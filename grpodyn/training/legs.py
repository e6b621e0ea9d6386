"""The stages of a run in their order, which of them are done, and where the others begin. No torch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpodyn.errors import UsageError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import MANIFEST
from grpodyn.trace.stages import Past, past

if TYPE_CHECKING:
    from grpodyn.config.run import RunConfig
    from grpodyn.config.task import TaskConfig

SFT = "sft"
"""Name of the stage of supervised fine-tuning."""
GRPO = "grpo"
"""Name of the stage of GRPO after it, where there is no curriculum."""

DONE = "done"
"""Outcome of a stage that was trained for its whole length."""


@dataclass(frozen=True)
class Leg:
    """One stage of a run: what one trainer trains."""

    name: str
    kind: Literal["sft", "grpo"]
    task: TaskConfig
    number: int
    """From 1."""
    in_curriculum: bool = False
    start: int = 0
    """Steps of the run before it."""
    after_sft: int | None = None
    """Steps of the run at which supervised fine-tuning ended, for a stage of GRPO after it."""


def legs(config: RunConfig) -> list[Leg]:
    """Return the stages of a run, none of them begun; none if the run is not in stages."""
    found: list[Leg] = []
    if config.sft is not None:
        found.append(Leg(SFT, "sft", config.sft.task or config.task, 1))
    if config.curriculum is not None:
        for stage in config.curriculum.stages:
            found.append(Leg(stage.name, "grpo", stage.task, len(found) + 1, in_curriculum=True))
    elif found:
        found.append(Leg(GRPO, "grpo", config.task, 2))
    return found


def recorded_past(run_dir: Path, checkpoint_step: int) -> list[Past]:
    """Return the stages that a run has begun, as far as its last checkpoint knows of them."""
    if not (run_dir / MANIFEST).is_file():
        return []
    known = [one for one in past(Manifest.read(run_dir).segments) if one.start <= checkpoint_step]
    # A stage whose end no checkpoint holds is trained again from the one before.
    return [
        one if one.end is None or one.end <= checkpoint_step else replace(one, end=None, outcome=None) for one in known
    ]


def remaining(planned: Sequence[Leg], known: Sequence[Past], on_stall: str | None) -> list[Leg]:
    """Return the stages that are left to train; the first one knows where it began, if it has.

    Raises:
        UsageError: nothing is left.
    """
    by_name = {one.name: one for one in known}
    left: list[Leg] = []
    start, after_sft = 0, None
    for leg in planned:
        before = by_name.get(leg.name)
        if before is not None and before.end is not None:
            start = before.end
            if leg.kind == "sft":
                after_sft = start
            if ends_run(leg, before.outcome, on_stall):
                raise UsageError(
                    f"the run ended with its stage {leg.name}, which is {str(before.outcome).replace('_', ' ')}, as "
                    "curriculum.on_stall says; there is nothing left to train"
                )
            continue
        left.append(replace(leg, start=start if before is None else before.start, after_sft=after_sft))
    if not left:
        raise UsageError("all stages of the run are done; there is nothing left to train")
    return left


def ends_run(leg: Leg, outcome: str | None, on_stall: str | None) -> bool:
    """Return whether the run ends with a stage that ended so."""
    return outcome is None or (leg.in_curriculum and outcome != "mastered" and on_stall == "stop")


def tuned_folder(run_dir: Path) -> Path:
    """Return where the weights at the end of supervised fine-tuning are kept."""
    return run_dir / "stages" / SFT


def keep_tuned(run_dir: Path, checkpoint: Path) -> Path:
    """Keep the model of the checkpoint that ends supervised fine-tuning: what GRPO's KL term is measured from.

    Raises:
        UsageError: neither the checkpoint nor the model is there.
    """
    folder = tuned_folder(run_dir)
    if folder.is_dir():
        return folder
    if not checkpoint.is_dir():
        raise UsageError(f"{checkpoint}, the end of supervised fine-tuning, is gone; start a new run")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    state = ("optimizer*", "scheduler*", "rng_state*", "trainer_state*", "training_args*", "scaler*")
    shutil.copytree(checkpoint, partial, ignore=shutil.ignore_patterns(*state))
    partial.replace(folder)
    return folder
