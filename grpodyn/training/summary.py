"""What to say when a run has ended: read back from its files, so that nothing is claimed that is not on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from grpodyn.evaluation.records import HeldOut, held_out_by_step
from grpodyn.trace.reader import open_run
from grpodyn.trace.stages import StageCourse, stage_course


@dataclass(frozen=True)
class RunSummary:
    """A run that has ended."""

    run_dir: Path
    status: str
    last_step: int
    before: HeldOut | None
    after: HeldOut | None
    """The last evaluation, unless that is the one before training."""
    stages: StageCourse | None = None
    """Null for a run without stages."""


def summarize(run_dir: Path) -> RunSummary:
    """Return the summary of the run in a directory.

    Raises:
        NotARunError, SchemaError, UnreadableError: as `open_run`.
    """
    run = open_run(run_dir)
    evaluations = held_out_by_step(run)
    before = evaluations.get(0)
    last = max(evaluations, default=0)
    after = evaluations[last] if last > 0 else None
    return RunSummary(run.path, run.status, run.last_step, before, after, stage_course(run))


def lines(summary: RunSummary) -> list[str]:
    """Return the summary as lines of text."""
    text = [f"{summary.run_dir}: {summary.status.replace('_', ' ')} at step {summary.last_step}"]
    before, after = summary.before, summary.after
    if before is not None and after is not None:
        text += [
            "held-out accuracy     T=1  greedy  best temperature",
            f"  before           {before.accuracy:6.3f}  {before.greedy:6.3f}  {_best(before)}",
            f"  after step {after.step:<6}{after.accuracy:6.3f}  {after.greedy:6.3f}  {_best(after)}",
        ]
    if summary.status == "stopped_early":
        text.append(f"go on with:  grpodyn record --resume --run-dir {summary.run_dir}")
    text += [
        f"what is in it:    grpodyn status {summary.run_dir}",
        f"the next LoRA:    grpodyn recommend-lora {summary.run_dir}",
    ]
    return text


def base_is_known(run_dir: Path) -> bool:
    """Return whether a run holds the evaluation of its base."""
    return 0 in open_run(run_dir).steps("evaluations")


def _best(result: HeldOut) -> str:
    if math.isnan(result.best_temperature_accuracy):
        return "–"
    return f"{result.best_temperature_accuracy:.3f} (T={result.best_temperature:g})"
