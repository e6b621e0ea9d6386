"""A reward over training, ready for a fit: strictly increasing in step, cut where training broke, with its noise known.

Missing values are left out, never filled. Where a run was taken up again and the curve jumps, a new *part* begins; fits
use one part and never bridge two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpodyn.errors import UsageError
from grpodyn.series.restarts import numbered_segments, parts, two_runs_in_one

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Axis = Literal["step", "prompts", "completions", "tokens", "seconds"]
AXES: tuple[Axis, ...] = get_args(Axis)


@dataclass(frozen=True)
class Broken:
    """Where training broke: the series ends before this step."""

    step: int
    what: str


@dataclass(frozen=True)
class RewardSeries:
    """One reward metric of one run. All arrays have one entry per logged point."""

    metric: str
    step: Integers
    """Optimizer step, strictly increasing."""
    value: Floats
    trials: Floats | None = None
    """Completions behind each value where rewards are 0 or 1, so that the noise is known; else None."""
    part: Integers | None = None
    """Number of the part; a new one begins where the curve jumps at a restart. None: all one part."""
    axis: Axis = "step"
    x: Floats | None = None
    """Position on `axis`, strictly increasing; None for `step`."""
    max_steps: int | None = None
    """Step at which training is planned to end."""
    learning_rate: Floats | None = None
    """Learning rate at each point; nan where it was not logged."""
    bounds: tuple[float, float] | None = None
    """What the metric can at most be, where that is known."""
    broken: Broken | None = None
    notes: tuple[str, ...] = ()
    """What was left out or assumed, one sentence each."""

    def __len__(self) -> int:
        return len(self.step)

    @property
    def position(self) -> Floats:
        """Position of each point on the axis."""
        return self.step.astype(np.float64) if self.x is None else self.x

    @property
    def learning_rate_share(self) -> float:
        """Learning rate at the last point over its peak; nan if it is not known (or logged as 0 throughout)."""
        if self.learning_rate is None:
            return float("nan")
        known = self.learning_rate[np.isfinite(self.learning_rate)]
        return float(known[-1] / known.max()) if known.size and known.max() > 0 else float("nan")

    def position_at(self, step: float) -> float:
        """Return the position of a step; past the last point at the mean pace of the last half of the points."""
        if self.x is None:
            return float(step)
        if step <= self.step[-1]:
            return float(np.interp(step, self.step, self.x))
        half = max(0, len(self) // 2 - 1)
        run = float(self.step[-1] - self.step[half])
        pace = float(self.x[-1] - self.x[half]) / run if run else float(self.x[-1]) / max(float(self.step[-1]), 1.0)
        return float(self.x[-1] + pace * (step - self.step[-1]))

    def step_at(self, position: float) -> float:
        """Return the step of a position: the inverse of `position_at`."""
        if self.x is None:
            return float(position)
        if position <= self.x[-1]:
            return float(np.interp(position, self.x, self.step))
        pace = self.position_at(float(self.step[-1]) + 1) - float(self.x[-1])
        return float(self.step[-1] + (position - self.x[-1]) / pace)

    def take(self, rows: slice | NDArray[np.bool_]) -> RewardSeries:
        """Return the series of some of its points."""
        arrays = ("step", "value", "trials", "part", "x", "learning_rate")
        held = {name: getattr(self, name) for name in arrays}
        return replace(self, **{name: value[rows] for name, value in held.items() if value is not None})

    def last_part(self) -> RewardSeries:
        """Return the part that a fit may use: the last one."""
        if self.part is None or not len(self) or self.part[0] == self.part[-1]:
            return self
        cut = self.take(self.part == self.part[-1])
        note = f"the curve jumps where training was taken up again: only what follows step {cut.step[0] - 1} is fitted"
        return replace(cut, notes=(*self.notes, note))


_LARGEST = 1e100
"""A value whose square, summed over a run, still is a number."""


def series_from_rows(
    step: ArrayLike,
    value: ArrayLike,
    *,
    metric: str = "reward",
    trials: ArrayLike | None = None,
    segment: ArrayLike | None = None,
    learning_rate: ArrayLike | None = None,
    max_steps: int | None = None,
    bounds: tuple[float, float] | None = None,
    broken: Broken | None = None,
    notes: Sequence[str] = (),
) -> RewardSeries:
    """Return the series of logged rows, in the order they were logged.

    Rows without a value are left out: a trainer need not log its reward in every row. Where steps go back, a run was
    taken up again: the later rows replace the earlier ones of the same steps. Where they go back to the very start, the
    log holds several runs, and the last one is meant.

    Args:
        step: step of each row.
        value: reward of each row; nan where the row has none.
        metric: name of the reward.
        trials: completions behind each value, if rewards are 0 or 1.
        segment: number of the start of the recorder that wrote each row; found from the steps if not given.
        learning_rate: of each row; nan where it was not logged.
        max_steps: planned end.
        bounds: least and greatest value that the metric can have.
        broken: where training broke; rows from there on are left out.
        notes: what else was left out.

    Raises:
        UsageError: steps and values differ in number, or the rows of several runs are mixed.
    """
    steps, values = np.asarray(step, np.int64), np.asarray(value, np.float64)
    if steps.shape != values.shape or steps.ndim != 1:
        raise UsageError(f"steps have shape {steps.shape} and values {values.shape}; give one value a step")
    said = list(notes)
    columns = {
        "trials": None if trials is None else np.asarray(trials, np.float64),
        "learning_rate": None if learning_rate is None else np.asarray(learning_rate, np.float64),
    }
    segments = None if segment is None else np.asarray(segment, np.int64)
    kept = np.isfinite(values) & (np.abs(values) <= _LARGEST)
    if beyond := int((np.isfinite(values) & ~kept).sum()):
        said.append(f"{beyond} values beyond ±{_LARGEST:g} are left out: their squares are no numbers any more")
    if broken is not None:
        kept &= steps < broken.step
    steps, values = steps[kept], values[kept]
    columns = {name: None if column is None else column[kept] for name, column in columns.items()}
    if segments is None:
        mixed = two_runs_in_one(steps)
        if mixed:
            raise UsageError(f"{mixed}; split the log into one file a run")
        segments, chosen, note = numbered_segments(steps)
        said += [note] if note else []
    else:
        segments, chosen = segments[kept], np.ones(len(steps), bool)
    # The last row of a step counts, as where a trainer logs a step twice.
    last = np.zeros(len(steps), bool)
    last[_last_of_each(steps, chosen)] = True
    order = np.flatnonzero(last)[np.argsort(steps[last], kind="stable")]
    return RewardSeries(
        metric,
        step=steps[order],
        value=values[order],
        trials=_ordered(columns["trials"], order),
        part=parts(values[order], segments[order]),
        max_steps=max_steps,
        learning_rate=_ordered(columns["learning_rate"], order),
        bounds=bounds,
        broken=broken,
        notes=tuple(said),
    )


def _ordered(column: Floats | None, order: NDArray[np.intp]) -> Floats | None:
    return None if column is None else column[order]


def _last_of_each(steps: Integers, chosen: NDArray[np.bool_]) -> list[int]:
    rows = np.flatnonzero(chosen)
    return list({int(steps[row]): int(row) for row in rows}.values())
