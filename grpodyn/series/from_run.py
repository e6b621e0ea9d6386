"""The reward of a recorded run as a series: from its rollouts, else from what the trainer logged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.errors import MissingDataError, UnknownNameError
from grpodyn.series.axes import positions
from grpodyn.series.breaks import first_break
from grpodyn.series.columns import evaluation, logged
from grpodyn.series.series import AXES, Axis, Floats, Integers, RewardSeries, series_from_rows

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

REWARD = "reward"
_SHARES = ("accuracy", "pass@", "solve_rate")
"""Metrics of these names lie between 0 and 1."""


@dataclass(frozen=True)
class _Rows:
    step: Integers
    value: Floats
    segment: Integers
    trials: Floats | None = None
    bounds: tuple[float, float] | None = None


def reward_series(run: Run, metric: str | None = None, axis: Axis = "step") -> RewardSeries:
    """Return a reward metric of a run.

    Without a metric it is the training reward, from the rollouts if they were recorded: every generation batch, with
    the number of completions behind it where rewards are 0 or 1.

    Args:
        run: an opened run.
        metric: key of the trainer's log or of the evaluations.
        axis: `step`, `prompts`, `completions`, `tokens` or `seconds`.

    Raises:
        MissingDataError: the run holds no such metric, or not what the axis needs; the message lists what it holds.
        UnknownNameError: there is no such axis.
    """
    if axis not in AXES:
        raise UnknownNameError.among("axis", axis, AXES)
    rows = _rows(run, metric or REWARD)
    broken = first_break(run)
    rate = logged(run, "learning_rate")
    series = series_from_rows(
        rows.step,
        rows.value,
        metric=metric or REWARD,
        trials=rows.trials,
        segment=rows.segment,
        learning_rate=None if rate is None else _at(rows.step, *rate),
        max_steps=planned_steps(run),
        bounds=rows.bounds,
        broken=broken,
        notes=[f"training broke at step {broken.step} ({broken.what}): what follows is left out"] if broken else [],
    )
    if axis == "step" or not len(series):
        return series
    x = positions(run, axis, series.step)
    # An axis may stand still, as where a run is resumed in the middle of a batch: the first of equal positions counts.
    moves = np.concatenate([[True], np.diff(np.maximum.accumulate(x)) > 0])
    return replace(series, axis=axis, x=x).take(moves)


def planned_steps(run: Run) -> int | None:
    """Return the step at which the run's training is planned to end, or None if nothing says."""
    arguments = run.manifest.arguments
    stated = arguments.get("max_steps")
    if isinstance(stated, int) and stated > 0:
        return stated
    epochs, seen = arguments.get("num_train_epochs"), logged(run, "epoch")
    if not isinstance(epochs, int | float) or seen is None:
        return None
    steps, epoch = seen
    known = np.flatnonzero(np.isfinite(epoch) & (epoch > 0))
    end = float(steps[known[-1]] / epoch[known[-1]] * epochs) if known.size else math.nan
    return round(end) if math.isfinite(end) else None


def _rows(run: Run, metric: str) -> _Rows:
    if metric == REWARD and run.rows["rollouts"]:
        rows = _from_rollouts(run.rollouts)
        if np.isfinite(rows.value).any():
            return rows
    for group, found in (("metrics", logged(run, metric)), ("evaluations", evaluation(run, metric))):
        if found is not None:
            segment = np.asarray(getattr(run, group)["segment"].values, np.int64)
            return _Rows(*found, segment, bounds=(0.0, 1.0) if any(name in metric for name in _SHARES) else None)
    run.require("metrics")
    known = [str(name) for name in run.metrics["metric"].values]
    if run.rows["evaluations"]:
        known += [str(name) for name in run.evaluations["metric"].values]
    raise MissingDataError(f"{run.path} holds no metric {metric!r}; it holds: {', '.join(known)}")


def _from_rollouts(rollouts: Any) -> _Rows:
    reward = np.asarray(rollouts["reward"].values, np.float64).reshape(rollouts.sizes["row"], -1)
    step = np.asarray(rollouts["step"].values, np.int64)
    segment = np.asarray(rollouts["segment"].values, np.int64)
    scored = np.isfinite(reward)
    # With gradient accumulation several batches feed one step: they are one point.
    unique, which = np.unique(step, return_inverse=True)
    total = np.bincount(which, np.where(scored, reward, 0.0).sum(axis=1), len(unique))
    count: Floats = np.bincount(which, scored.sum(axis=1), len(unique)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        value = np.where(count > 0, total / count, np.nan)
    last = np.zeros(len(unique), np.int64)
    last[which] = segment
    if np.isin(reward[scored], (0.0, 1.0)).all():
        return _Rows(unique, value, last, count, (0.0, 1.0))
    return _Rows(unique, value, last)


def _at(wanted: Integers, step: Integers, value: Floats) -> Floats:
    """Return the last value logged up to each step; nan before the first."""
    known = np.isfinite(value)
    if not known.any():
        return np.full(len(wanted), np.nan)
    index = np.searchsorted(step[known], wanted, side="right") - 1
    return np.where(index >= 0, value[known][np.maximum(index, 0)], np.nan)
