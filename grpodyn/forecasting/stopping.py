"""When to stop a run: the marginal rule, on the same fits as a forecast.

Stop when the gain that may be expected until the planned end is less than epsilon, at several looks in a row.
Never before a rise has been seen and its inflection passed: a run that has not risen yet looks like one that never
will.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting import outlook
from grpodyn.forecasting.candidates import aicc, deviance
from grpodyn.forecasting.fitting import LEAST_POINTS, Fit, fit
from grpodyn.forecasting.flags import Log, fault_flags
from grpodyn.forecasting.likelihood import Surface
from grpodyn.series import RewardSeries
from grpodyn.statistics.interval import Interval

Floats = NDArray[np.float64]

EPSILON = 0.02
"""Expected gain that is not worth going on for, as a share of the level reached. What is lost is less than half of it
(docs/results/forecast.md): the curves that the data leave open promise more than most runs keep."""
TREND_MARGIN = 12.0
"""Units of AICc by which a rise must be told from a constant; more than for a forecast, as a run is looked at often."""
DONE = 0.6
"""Share of its rise that a curve must have done: past the inflection of every form."""
SURE = 0.8
"""Share of the curves that fit which must agree."""
LOOKS = 2
"""Looks in a row at which the rule must hold."""
NEW_POINTS = 0.05
"""A look is taken when the series has grown by this share: so the cost of all looks grows with its logarithm."""
_LEAST_NEW = 3


@dataclass(frozen=True)
class Look:
    """What one look at the series found."""

    step: int
    holds: bool
    """Whether the rule holds at this look."""
    why: str
    left: Interval | None
    """Gain that is left until the planned end."""
    epsilon: float
    """Gain that is not worth going on for."""


@dataclass(frozen=True)
class Decision:
    """That a run may stop, and why."""

    step: int
    why: str
    left: Interval | None
    epsilon: float
    saved_steps: int | None
    """Until the planned end."""


def look(series: RewardSeries, epsilon: float | None = None, flags: Sequence[str] = ()) -> Look:
    """Return whether the marginal rule holds at the end of a series; where there is a sign of a fault, it does not."""
    step = int(series.step[-1]) if len(series) else -1
    found = fit(series, epsilon)
    if found is None:
        return Look(step, False, f"fewer than {LEAST_POINTS} points", None, math.nan)
    left, level = _left(found), _level(found)
    enough = EPSILON * abs(level) if epsilon is None else epsilon
    expected = _expected(left)
    objection = _objection(found)
    if not objection and expected >= enough:
        objection = f"a gain of {expected:.3g} may be expected, {enough:.3g} or more is worth going on"
    if not objection and flags:
        objection = f"this may be a fault rather than a plateau: {'; '.join(flags)}"
    why = objection or f"a gain of {expected:.3g} may be expected, less than {enough:.3g}"
    return Look(step, objection == "", why, outlook.interval(left), enough)


def look_further(series: RewardSeries) -> tuple[bool, float, float]:
    """Return what a look rests on, before any epsilon: whether the rise is told, the expected gain, the level."""
    found = fit(series)
    if found is None:
        return False, math.nan, math.nan
    return _objection(found) == "", _expected(_left(found)), _level(found)


def _left(found: Fit) -> Floats:
    return outlook.gain_left(found.curves, found.data, found.end)


def _expected(left: Floats) -> float:
    """Return the mean gain; a loss to come is no reason to go on, but none to count as a negative gain either."""
    return float(np.maximum(left, 0.0).mean())


def _level(found: Fit) -> float:
    return float(np.median(outlook.level_at(found.curves, found.data, found.data.x[-1:])))


def _objection(found: Fit) -> str:
    """Return why nothing can be said about the rest of the rise, or ""."""
    if found.oscillates:
        return "the reward goes up and down"
    if found.fell:
        return "the reward has fallen"
    margin, rises = _rise(found.surfaces)
    if margin < TREND_MARGIN or not rises:
        return "no rise has been identified yet"
    if not outlook.inflection_told(found.curves, found.data, DONE, SURE):
        return "the inflection of the rise is not told yet"
    return ""


def _rise(surfaces: Mapping[str, Surface]) -> tuple[float, bool]:
    """Return by how much the best form beats the constant on the grid (units of AICc), and whether it rises."""
    best: dict[str, tuple[float, float]] = {}
    for name, one in surfaces.items():
        values = deviance(one)
        place = np.unravel_index(int(np.argmin(values)), values.shape)
        rise = float(one.solve()[1][place])
        best[name] = aicc(float(values[place]), one.form.parameters + 2, one.points), rise
    others = [value for name, value in best.items() if name != "constant"]
    value, rise = min(others)
    return best["constant"][0] - value, rise > 0


class StopRule:
    """The rule applied as rows come in. Adding a row costs next to nothing; looks come at growing distances."""

    def __init__(
        self,
        max_steps: int | None,
        epsilon: float | None = None,
        metric: str = "reward",
        bounds: tuple[float, float] | None = None,
        looks: int = LOOKS,
        log: Log | None = None,
    ) -> None:
        self.last: Look | None = None
        """What the last look found."""
        self.taken = 0
        """Looks taken so far."""
        self._max_steps, self._epsilon, self._metric, self._bounds = max_steps, epsilon, metric, bounds
        self._looks, self._log = looks, log
        self._step: list[int] = []
        self._value: list[float] = []
        self._held = 0
        self._next = LEAST_POINTS

    def recall(self, step: int, value: float) -> None:
        """Take in a row of before a resume: it is looked at together with the next one."""
        if np.isfinite(value):
            self._step.append(step)
            self._value.append(value)
            self._next = max(self._next, len(self._step) + 1)

    def add(self, step: int, value: float) -> Decision | None:
        """Take a row in; return a decision if it is the one at which the rule has held often enough."""
        if not np.isfinite(value):
            return None
        self._step.append(step)
        self._value.append(value)
        if len(self._step) < self._next:
            return None
        self._next = len(self._step) + max(_LEAST_NEW, round(NEW_POINTS * len(self._step)))
        series = self._series()
        self.last = look(series, self._epsilon, () if self._log is None else fault_flags(self._log, series))
        self.taken += 1
        self._held = self._held + 1 if self.last.holds else 0
        if self._held < self._looks:
            return None
        saved = None if self._max_steps is None else self._max_steps - step
        return Decision(step, self.last.why, self.last.left, self.last.epsilon, saved)

    def _series(self) -> RewardSeries:
        return RewardSeries(
            self._metric,
            np.array(self._step, np.int64),
            np.array(self._value),
            max_steps=self._max_steps,
            bounds=self._bounds,
        )
