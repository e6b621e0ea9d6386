"""The stages of a run, as its segments and its evaluations tell of them. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

RETESTED = "stage/"
"""Metrics of `evaluations` that begin so are of prompts that are tested again, by name."""
ACCURACY = "/accuracy"
PERPLEXITY = "perplexity/"


@dataclass(frozen=True)
class Past:
    """A stage of which a run holds at least the beginning."""

    name: str
    start: int
    """Steps of the run before it."""
    end: int | None = None
    """Its last step; None where it has not ended."""
    outcome: str | None = None
    """`done`, or of a curriculum's stage `mastered`, `stalled` or `not_viable`; None where it has not ended."""


@dataclass(frozen=True)
class At:
    """What was measured where a stage ended, or before the first one."""

    step: int
    retested: Mapping[str, float]
    """Accuracy at T=1 of what is tested again, by name: of a curriculum, all of its stages."""
    perplexity: Mapping[str, float]
    """By text."""


@dataclass(frozen=True)
class StageCourse:
    """How a run went through its stages."""

    stages: tuple[Past, ...]
    before: At | None
    """At step 0; None where nothing was measured then."""
    after: tuple[At | None, ...]
    """At the end of each stage."""


def past(segments: Sequence[Mapping[str, Any]]) -> list[Past]:
    """Return the stages that a run's segments tell of, in their order; a stage that was resumed is one stage.

    >>> past([{"stage": "sft", "stage_start": 0}, {"stage": "sft", "stage_start": 0, "outcome": "done", "end_step": 9}])
    [Past(name='sft', start=0, end=9, outcome='done')]
    """
    found: dict[str, Past] = {}
    for segment in segments:
        if isinstance(segment.get("stage"), str):
            name, start, end = segment["stage"], segment.get("stage_start"), segment.get("end_step")
            outcome = segment.get("outcome")
            found[name] = Past(
                name,
                start if type(start) is int else 0,
                end if type(end) is int else None,
                outcome if isinstance(outcome, str) else None,
            )
    return list(found.values())


def stage_course(run: Run) -> StageCourse | None:
    """Return how a run went through its stages; None for a run without stages."""
    stages = past(run.manifest.segments)
    if not stages:
        return None
    measured = _measured(run)
    after = tuple(None if stage.end is None else measured.get(stage.end) for stage in stages)
    return StageCourse(tuple(stages), measured.get(0), after)


def _measured(run: Run) -> dict[int, At]:
    if not run.rows["evaluations"]:
        return {}
    data = run.evaluations
    values = np.asarray(data["values"].values, np.float64)
    steps = np.asarray(data["step"].values, np.int64)
    names = [str(name) for name in data["metric"].values]
    found: dict[int, At] = {}
    for step in np.unique(steps).tolist():
        retested, perplexity = {}, {}
        for name, column in zip(names, values[steps == step].T, strict=True):
            finite = column[np.isfinite(column)]
            if finite.size and name.startswith(RETESTED) and name.endswith(ACCURACY):
                retested[name.removeprefix(RETESTED).removesuffix(ACCURACY)] = float(finite[-1])
            elif finite.size and name.startswith(PERPLEXITY):
                perplexity[name.removeprefix(PERPLEXITY)] = float(finite[-1])
        if retested or perplexity:
            found[step] = At(step, retested, perplexity)
    return found
