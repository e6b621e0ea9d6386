"""The record itself, what it cost, and runs side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpodyn.reporting.blocks import Block, Level, Sentence, Table, Verdict
from grpodyn.reporting.numbers import percent, ranged, shown

_WHOLE: dict[str, tuple[str, Level]] = {
    "finished": ("Yes: the run finished", "good"),
    "stopped_early": ("Yes: the run was stopped on purpose", "good"),
    "running": ("Not yet: the run is still being written; this shows what is committed", "note"),
    "interrupted": ("No: the run was interrupted; what was committed before is shown", "warning"),
    "failed": ("No: training failed; what was recorded before is shown", "critical"),
    "empty": ("No: the record is empty, so nothing can be said about the training", "critical"),
}
_MOST_PROBLEMS = 12
_MOST_DIFFERENCES = 20


def record(found: Any) -> Iterator[Block]:
    """Say whether a record is whole, with what it holds and what went wrong; `found` is an `Overview`."""
    answer, level = _WHOLE.get(found.status, (found.status, "unknown"))
    until = f", last step {found.last_step}" if found.last_step >= 0 else ""
    if found.problems and level == "good":
        level = "note"
    because = tuple(found.problems[:_MOST_PROBLEMS])
    if len(found.problems) > _MOST_PROBLEMS:
        because += (f"and {len(found.problems) - _MOST_PROBLEMS} more; `grpodyn status` lists them",)
    yield Verdict("Is the record whole?", f"{answer}{until}.", level, because=because)
    rows = tuple((group, f"{count:,}") for group, count in found.rows.items())
    yield Table("Rows recorded", ("group", "rows"), rows, folded=True)
    if found.skipped:
        skipped = tuple((one["what"], one["why"]) for one in found.skipped)
        yield Table("Not recorded", ("what", "why"), skipped, folded=True)


def cost(found: Any) -> Block:
    """Say what recording cost; `found` is a `RecordingCost`."""
    share = shown(100 * found.share, ".2g")
    # Not 2.47e+03: these are read, not computed with.
    beside = shown(found.total_steps, ",.0f" if found.total_steps >= 100 else ".3g")
    spent = shown(found.total_recorder, ",.0f" if found.total_recorder >= 100 else ".3g")
    answer = f"{spent} CPU seconds beside {beside} s of training: {share} %."
    return Verdict("What did recording cost?", answer, "unknown" if math.isnan(found.share) else "good")


def comparison(found: Any) -> Iterator[Block]:
    """Set runs side by side; `found` is a `Comparison`."""
    yield Verdict("How do the runs compare?", _compared(found), "note", because=tuple(found.warnings))
    rows = [
        ("status", [run.status for run in found.runs]),
        ("trains", [run.trains for run in found.runs]),
        (
            "trainable parameters",
            ["–" if r.trainable_params is None else f"{r.trainable_params:,}" for r in found.runs],
        ),
        ("steps", [f"{run.steps:,}" for run in found.runs]),
        ("seconds of training", [shown(run.seconds, ",.0f") for run in found.runs]),
        ("base, T=1", [shown(run.base.accuracy) for run in found.runs]),
        ("trained, T=1", [shown(run.trained.accuracy) for run in found.runs]),
        ("gain", [shown(run.gain, "+.3f") for run in found.runs]),
        ("gain kept", [percent(run.gain_kept) for run in found.runs]),
        ("base, greedy", [shown(run.base.greedy) for run in found.runs]),
        ("trained, greedy", [shown(run.trained.greedy) for run in found.runs]),
        ("base at its best temperature", [shown(run.base.best_temperature_accuracy) for run in found.runs]),
    ]
    names = tuple(Path(run.path).name for run in found.runs)
    yield Table("Held-out accuracy and cost", ("", *names), tuple((name, *cells) for name, cells in rows))
    if found.differences:
        told = tuple(
            (one.key, *(_value(value) for value in one.values)) for one in found.differences[:_MOST_DIFFERENCES]
        )
        yield Table("Where the configs differ", ("key", *names), told, folded=True)
    if found.metrics.comparisons:
        yield _parted(found)
    for note in found.layers.notes:
        yield Sentence(note)


def _compared(found: Any) -> str:
    known = [run for run in found.runs if not math.isnan(run.trained.accuracy)]
    if not known:
        return "No run has a held-out accuracy of its trained model; what their rewards say stands below."
    told = [
        f"{Path(run.path).name} {shown(run.base.accuracy)} → {shown(run.trained.accuracy)} ({run.trains})"
        for run in known
    ]
    return f"Held-out accuracy at T=1: {'; '.join(told)}."


def _parted(found: Any) -> Table:
    rows = tuple(
        (
            f"{one.metric}, {one.arm}",
            ranged(one.reference_end),
            ranged(one.arm_end),
            ranged(one.separation.difference, "+.3g"),
            one.separation.verdict if one.since is None else f"{one.separation.verdict}, since step {one.since}",
        )
        for one in found.metrics.comparisons
    )
    reference = found.arms[0].label
    return Table(
        f"Arms beside {reference}, in the last window", ("metric", reference, "arm", "difference", "verdict"), rows
    )


def _value(value: Any) -> str:
    return "–" if value is None else str(value)
