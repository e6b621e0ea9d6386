"""What an ensemble of curves says about where a run ends: level, gain that is left, phases, when to stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting.ensemble import Ensemble, reach
from grpodyn.forecasting.forms import FORMS
from grpodyn.forecasting.noise import Observations
from grpodyn.statistics.interval import Interval

Floats = NDArray[np.float64]

LEVEL = 0.8
"""Confidence of every interval of a forecast."""
CHANGE_OF_COURSE = 0.27
"""Chance that a run which has everything before it ends at a level that nothing so far foretells (it collapses, or
starts to rise late); it shrinks with the square root of the share of the run that is left."""
RISE_BEGINS, RISE_ENDS = 0.1, 0.9
"""Shares of the rise that bound the rapid phase."""
_GRID = 240
_SLOW_START = 0.1
"""A start that takes this share of the rapid phase's length is slow."""


@dataclass(frozen=True)
class Phases:
    """Where the phases of a rise begin, in steps; None for a phase that the curve does not show."""

    slow: Interval | None = None
    """End of a slow start."""
    rapid: Interval | None = None
    """Begin of the rapid phase: a tenth of the rise is done."""
    plateau: Interval | None = None
    """Begin of the plateau: nine tenths of the rise are done."""


def interval(values: Floats, level: float = LEVEL) -> Interval:
    """Return median and central interval of draws."""
    tail = (1 - level) / 2
    low, middle, high = (float(value) for value in np.quantile(values, [tail, 0.5, 1 - tail]))
    return Interval(middle, low, high, level)


def predicted(
    curves: Ensemble, data: Observations, x: float, share_left: float, bounds: tuple[float, float] | None, seed: int = 0
) -> Floats:
    """Return draws of the mean reward at position `x`, with the chance that the run changes its course.

    Args:
        curves: the ensemble.
        data: the points it was drawn for.
        x: position, at or past the last point.
        share_left: share of the whole run that lies between the last point and x, in [0, 1].
        bounds: of the metric.
        seed: of the draws.
    """
    values = curves.mean(data.place(np.array([x])))[:, 0]
    rng = np.random.default_rng(seed)
    changed = rng.random(len(values)) < CHANGE_OF_COURSE * np.sqrt(np.clip(share_left, 0.0, 1.0))
    if bounds is not None:
        values = np.clip(values, *bounds)
    elsewhere = rng.uniform(*(bounds if bounds is not None else reach(data.y)), len(values))
    return np.where(changed, elsewhere, values)


def level_at(curves: Ensemble, data: Observations, x: Floats) -> Floats:
    """Return the mean reward of each draw at each position, (draws, positions)."""
    return curves.mean(data.place(x))


def asymptote(curves: Ensemble) -> Interval | None:
    """Return where the curves saturate, or None if most of those with a trend do not."""
    saturates = np.array([form.saturates for form in FORMS.values()])[curves.form]
    trend = ~curves.of_form("constant")
    if trend.sum() == 0 or saturates.sum() < 0.7 * trend.sum():
        return None
    return interval((curves.start + curves.rise)[saturates])


def gain_left(curves: Ensemble, data: Observations, end: float | None) -> Floats:
    """Return, per draw, what is left to gain from the last point to `end`, or to the asymptote if there is no end.

    A straight line has no asymptote: without an end, what it gains in half the length of the data so far.
    """
    now = level_at(curves, data, data.x[-1:])[:, 0]
    if end is not None:
        return level_at(curves, data, np.array([end]))[:, 0] - now
    saturates = np.array([form.saturates for form in FORMS.values()])[curves.form]
    further = level_at(curves, data, np.array([data.x[-1] + 0.5 * (data.x[-1] - data.x[0])]))[:, 0]
    return np.where(saturates, curves.start + curves.rise, further) - now


def marginal_stop(curves: Ensemble, data: Observations, end: float, epsilon: float) -> float | None:
    """Return the first position from which going on to `end` gains less than epsilon (in the median), or None.

    It may lie in the past: there the run could have been stopped.
    """
    x = np.linspace(float(data.x[0]), end, _GRID)
    levels = level_at(curves, data, x)
    left = np.median(levels[:, -1:] - levels, axis=0)
    enough = np.flatnonzero(left < epsilon)
    # At the end itself nothing is ever left: that is no reason to stop before it.
    return float(x[enough[0]]) if enough.size and enough[0] < _GRID - 1 else None


def inflection_told(curves: Ensemble, data: Observations, share: float, sure: float) -> bool:
    """Return whether so many draws as `sure` (a share) have done `share` of their rise by the last point."""
    trend = curves.rise != 0.0
    if trend.mean() < sure:
        return False
    done = done_share(curves, data, data.x[-1:])[trend, 0]
    return bool((done >= share).mean() >= sure)


def done_share(curves: Ensemble, data: Observations, x: Floats) -> Floats:
    """Return the share of the rise, counted from the first point, that each draw has done at each position."""
    first = curves.shares(data.place(data.x[:1]))
    saturates = np.array([form.saturates for form in FORMS.values()])[curves.form][:, None]
    shares = curves.shares(data.place(x))
    with np.errstate(invalid="ignore", divide="ignore"):
        done: Floats = np.where(saturates, (shares - first) / (1 - first), 0.0)
    return np.nan_to_num(done)


def phases(curves: Ensemble, data: Observations, end: float) -> Phases:
    """Return the phases of the rise, in positions of the axis, as far as `end`."""
    saturates = np.array([form.saturates for form in FORMS.values()])[curves.form]
    first, last = float(data.x[0]), max(end, float(data.x[-1]))
    x = np.linspace(first, last, _GRID)
    done = done_share(curves, data, x)[saturates]
    if not len(done):
        return Phases()
    begins, ends = (_reached(done, x, share) for share in (RISE_BEGINS, RISE_ENDS))
    rapid = _mostly(begins)
    plateau = _mostly(ends)
    slow = None
    if rapid is not None:
        # A rise that has not ended yet is at least as long as what is shown of it.
        length = np.where(np.isfinite(ends), ends, last) - begins
        with np.errstate(invalid="ignore"):
            is_slow = (begins - first) > _SLOW_START * length
        slow = rapid if np.mean(is_slow) > 0.5 else None
    return Phases(slow, rapid, plateau)


def _reached(done: Floats, x: Floats, share: float) -> Floats:
    """Return where each curve first has done `share` of its rise; nan if not by the last position."""
    there = done >= share
    reached = there.any(axis=1)
    return np.where(reached, x[np.argmax(there, axis=1)], np.nan)


def _mostly(positions: Floats) -> Interval | None:
    known = positions[np.isfinite(positions)]
    return interval(known) if len(known) > 0.5 * len(positions) else None
