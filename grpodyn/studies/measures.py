"""What a finished run of a sweep has come to: one number a metric, read from its trace. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpodyn.evaluation.records import ACCURACY
from grpodyn.studies.study import Level

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

GAIN = "gain"
"""Held-out accuracy at T=1 after training less before."""
RATIO = "perplexity_ratio/"
"""Of a text: perplexity after training over before; 1 is nothing lost."""
TRAIN = "train/"
"""What the trainer logged, as the mean of its last logs."""
LAST_LOGS = 10
JUDGED = (ACCURACY, f"{TRAIN}reward")
"""What says how well an arm has learned: the first of them that was measured."""

_PERPLEXITY = "perplexity/"
_LOGGED = ("reward", "completions/mean_length", "completions/clipped_ratio", "entropy", "kl")
_LOGGED_PREFIX, _LOGGED_SUFFIX = "rewards/", "/mean"


def is_factor(metric: str) -> bool:
    """Return whether a metric is one of factors: its means are geometric, and two arms are compared by their ratio.

    >>> is_factor("perplexity_ratio/stories"), is_factor("heldout/accuracy")
    (True, False)
    """
    return metric.startswith(RATIO)


def measures(run: Run, at: Level | None = None) -> dict[str, float]:
    """Return what a run has come to, by metric; what was not measured is left out.

    Every metric of the last evaluation stands under its own key. Beside them: `gain`, `perplexity_ratio/TEXT`,
    `train/KEY` (the mean over the last 10 logs of the trainer), and, if `at` names a level, `KEY@METRIC=VALUE` for
    `perplexity_ratio` and drift at the first moment at which the run has come so far, and the step of it.

    Args:
        run: the run.
        at: where runs are compared at equal skill.
    """
    steps, columns = _evaluations(run)
    found: dict[str, float] = {}
    for name, values in columns.items():
        known = np.flatnonzero(np.isfinite(values))
        # What was only measured before training says nothing of the trained model.
        if known.size and steps[known[-1]] > 0:
            found[name] = float(values[known[-1]])
    if ACCURACY in found and _start(steps, columns[ACCURACY]) is not None:
        found[GAIN] = found[ACCURACY] - float(_start(steps, columns[ACCURACY]) or 0.0)
    for name in [name for name in found if name.startswith(_PERPLEXITY)]:
        start = _start(steps, columns[name])
        if start:
            found[RATIO + name.removeprefix(_PERPLEXITY)] = found[name] / start
    if at is not None:
        found |= _at_level(steps, columns, _skill(run, steps, columns, at.metric), at)
    return found | _logged(run)


def _evaluations(run: Run) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Return the steps of the evaluations in ascending order, and each metric at them, nan where it was not measured.

    One evaluation may come as several rows, and a step may be evaluated again: the last number counts.
    """
    data = run.evaluations
    if "values" not in data or not data.sizes.get("row", 0):
        return np.empty(0, np.int64), {}
    values = np.asarray(data["values"].values, np.float64)
    of_row = np.asarray(data["step"].values, np.int64)
    steps = np.unique(of_row)
    columns: dict[str, Floats] = {}
    for i, name in enumerate(data["metric"].values):
        column = np.full(steps.size, math.nan)
        for row in np.flatnonzero(np.isfinite(values[:, i])):
            column[np.searchsorted(steps, of_row[row])] = values[row, i]
        columns[str(name)] = column
    return steps, columns


def _start(steps: NDArray[np.int64], column: Floats) -> float | None:
    if not steps.size or steps[0] != 0 or not math.isfinite(column[0]):
        return None
    return float(column[0])


def _skill(run: Run, steps: NDArray[np.int64], columns: Mapping[str, Floats], metric: str) -> Floats | None:
    """Return a metric at the steps of the evaluations; what the trainer logs as the mean of its last logs until then.

    A log is of completions sampled before its step's update; the first one is the base's.
    """
    if not metric.startswith(TRAIN):
        return columns.get(metric)
    data = run.metrics
    names = [] if "values" not in data else list(map(str, data["metric"].values))
    if metric.removeprefix(TRAIN) not in names:
        return None
    values = np.asarray(data["values"][:, names.index(metric.removeprefix(TRAIN))].values, np.float64)
    logged = np.asarray(data["step"].values, np.int64)[np.isfinite(values)]
    values = values[np.isfinite(values)]
    ends = [max(1, int(np.searchsorted(logged, step, side="right"))) for step in steps]
    return np.array([values[max(0, end - LAST_LOGS) : end].mean() if values.size else math.nan for end in ends])


def _at_level(
    steps: NDArray[np.int64], columns: Mapping[str, Floats], skill: Floats | None, at: Level
) -> dict[str, float]:
    """Return the metrics of forgetting where the run first reaches the level, on straight lines between evaluations."""
    suffix = f"@{at.metric}={at.value:g}"
    if skill is None:
        return {}
    there = np.flatnonzero(np.isfinite(skill) & (skill >= at.value))
    if not there.size:
        return {}
    after = int(there[0])
    before = [int(i) for i in np.flatnonzero(np.isfinite(skill[:after]))]
    share = 1.0 if not before else float((at.value - skill[before[-1]]) / (skill[after] - skill[before[-1]]))
    earlier = before[-1] if before else after

    def between(column: Floats) -> float:
        return float(column[earlier] + share * (column[after] - column[earlier]))

    found = {f"step{suffix}": between(steps.astype(np.float64))}
    for name, column in columns.items():
        start = _start(steps, column)
        if name.startswith(_PERPLEXITY) and start:
            # Losses are what grows evenly, so the line is drawn between logarithms.
            value = math.exp(between(np.log(column)) - math.log(start))
            found[RATIO + name.removeprefix(_PERPLEXITY) + suffix] = value
        elif name.startswith("kl/"):
            found[name + suffix] = between(column)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _logged(run: Run) -> dict[str, float]:
    data = run.metrics
    if "values" not in data or not data.sizes.get("row", 0):
        return {}
    found: dict[str, float] = {}
    for i, name in enumerate(map(str, data["metric"].values)):
        if name in _LOGGED or (name.startswith(_LOGGED_PREFIX) and name.endswith(_LOGGED_SUFFIX)):
            column = np.asarray(data["values"][:, i].values, np.float64)
            finite = column[np.isfinite(column)]
            if finite.size:
                found[TRAIN + name] = float(finite[-LAST_LOGS:].mean())
    return found
