"""Fits all forms to the part of a series that can be fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from grpodyn.forecasting.candidates import all_surfaces
from grpodyn.forecasting.course import CLEAR_ERRORS, course
from grpodyn.forecasting.ensemble import Ensemble, ensemble
from grpodyn.forecasting.forms import FORMS
from grpodyn.forecasting.likelihood import Surface
from grpodyn.forecasting.noise import Observations, observe
from grpodyn.series import RewardSeries

LEAST_POINTS = 10
"""With fewer points nothing is said."""
EPSILON = 0.01
"""Gain that is not worth going on for: in widths of the metric's bounds, else of its level."""


@dataclass(frozen=True)
class Fit:
    """Points, all forms over their grids, and the curves that the data leave open."""

    series: RewardSeries
    data: Observations
    surfaces: Mapping[str, Surface]
    curves: Ensemble
    epsilon: float
    turns: tuple[int, ...]
    """Steps at which the curve turned."""
    oscillates: bool
    """Whether it turned again and again, beyond doubt."""
    fell: bool
    """Whether it went down last."""
    fell_clearly: bool
    """Whether it did beyond doubt: then no form with a trend need say so too."""

    @property
    def end(self) -> float | None:
        """Position of the planned end, if there is one."""
        if self.series.max_steps is None:
            return None
        return max(self.series.position_at(self.series.max_steps), float(self.data.x[-1]))

    @property
    def share_left(self) -> float:
        """Share of the run that is still to come; half where no end is planned."""
        if self.end is None:
            return 0.5
        # A part's positions count from the start of the run.
        whole = self.end - min(0.0, float(self.series.position[0]))
        return float(np.clip((self.end - self.data.x[-1]) / whole, 0.0, 1.0)) if whole > 0 else 0.0


def default_epsilon(series: RewardSeries) -> float:
    """Return the gain that is not worth going on for, in the metric's unit."""
    if series.bounds is not None:
        return EPSILON * (series.bounds[1] - series.bounds[0])
    return EPSILON * max(float(np.median(np.abs(series.value[-10:]))), float(np.ptp(series.value)) / 2, 1e-12)


def fit(series: RewardSeries, epsilon: float | None = None, seed: int = 0) -> Fit | None:
    """Fit every form to the part of a series that can be fitted, or return None if it is too short."""
    part = series.last_part()
    if len(part) < LEAST_POINTS:
        return None
    gain = default_epsilon(part) if epsilon is None else epsilon
    data = observe(part.position, part.value, part.trials)
    went = course(data.y, data.scale, gain)
    clearly = course(data.y, data.scale, gain, CLEAR_ERRORS)
    turns = tuple(round(part.step_at(float(data.x[turn]))) for turn in went.turns)
    if len(turns) == 1:
        after = part.take(part.position >= data.x[went.turns[0]])
        if len(after) >= LEAST_POINTS:
            part = after
            data = observe(part.position, part.value, part.trials)
    surfaces = all_surfaces(data, FORMS.values())
    return Fit(
        part,
        data,
        surfaces,
        ensemble(data, surfaces, part.bounds, seed),
        gain,
        turns,
        oscillates=len(clearly.turns) > 1,
        fell=went.direction < 0,
        # What has risen again since, be it by less, has not gone down last.
        fell_clearly=went.direction < 0 and clearly.direction < 0,
    )
