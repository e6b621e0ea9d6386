"""What a step cost: prompts, completions, tokens or seconds spent up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.errors import MissingDataError
from grpodyn.series.columns import Column, logged
from grpodyn.series.series import Axis, Floats, Integers

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


def positions(run: Run, axis: Axis, step: Integers) -> Floats:
    """Return what had been spent at each step, in the unit of the axis.

    Raises:
        MissingDataError: the run does not hold what the axis needs.
    """
    if axis == "step":
        return step.astype(np.float64)
    found = {
        "prompts": lambda: _generated(run, per_prompt=True),
        "completions": lambda: _generated(run, per_prompt=False),
        "tokens": lambda: _tokens(run),
        "seconds": lambda: _seconds(run),
    }[axis]()
    if found is None:
        needs = {
            "prompts": "rollouts, or the trainer's batch size in its manifest",
            "completions": "rollouts, or the trainer's batch size in its manifest",
            "tokens": "the metric num_tokens, or rollouts",
            "seconds": "the metric step_seconds, or times",
        }[axis]
        raise MissingDataError(f"{run.path} cannot be drawn by {axis}: that needs {needs}; use another axis")
    steps, spent = found
    # A step between two records has spent its share of what lies between them.
    at: Floats = np.interp(step, np.concatenate([[0], steps]), np.concatenate([[0.0], spent]))
    return at


def _generated(run: Run, *, per_prompt: bool) -> Column | None:
    if run.rows["rollouts"]:
        reward = run.rollouts["length"]
        held = np.isfinite(np.asarray(reward.values, np.float64))
        each = held.any(axis=2).sum(axis=1) if per_prompt else held.sum(axis=(1, 2))
        return _cumulative(np.asarray(run.rollouts["step"].values, np.int64), each.astype(np.float64))
    arguments = run.manifest.arguments
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations")
    batch, accumulated, group = (_whole(arguments.get(key), 0) for key in keys)
    if not batch * accumulated * group:
        return None
    reuse = _whole(arguments.get("num_iterations"), 1)
    ranks = _whole(run.manifest.world.get("ranks"), 1)
    each_step = batch * accumulated * ranks / reuse / (group if per_prompt else 1)
    last = max(run.steps("metrics"), default=0)
    return np.array([last], np.int64), np.array([last * each_step])


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value > 0 else otherwise


def _tokens(run: Run) -> Column | None:
    column = logged(run, "num_tokens")
    if column is not None:
        step, value = column
        known = np.isfinite(value)
        # The trainer's counter goes back where a run is resumed from a checkpoint; it is cumulative.
        return (step[known], np.maximum.accumulate(value[known])) if known.any() else None
    if not run.rows["rollouts"]:
        return None
    length = np.asarray(run.rollouts["length"].values, np.float64)
    return _cumulative(np.asarray(run.rollouts["step"].values, np.int64), np.nansum(length, axis=(1, 2)))


def _seconds(run: Run) -> Column | None:
    column = logged(run, "step_seconds")
    if column is not None and np.isfinite(column[1]).any():
        return _cumulative(column[0], np.nan_to_num(column[1]))
    if not run.rows["metrics"] or "time" not in run.metrics:
        return None
    time = np.asarray(run.metrics["time"].values, np.float64)
    step = np.asarray(run.metrics["step"].values, np.int64)
    segment = np.asarray(run.metrics["segment"].values, np.int64)
    spent = np.diff(time, prepend=time[:1])
    # Between two starts the run stood still.
    spent[np.diff(segment, prepend=segment[:1]) != 0] = 0.0
    return _cumulative(step, np.nan_to_num(spent)) if np.isfinite(time).any() else None


def _cumulative(step: Integers, each: Floats) -> Column:
    unique, which = np.unique(step, return_inverse=True)
    return unique, np.cumsum(np.bincount(which, each, len(unique)))
