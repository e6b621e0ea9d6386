"""The curve that a forecast rests on, as a figure draws it: behind the last point as fitted, before it as foretold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting import outlook
from grpodyn.forecasting.forecast import Fit

Floats = NDArray[np.float64]
POINTS = 80
"""Positions at which each part of a curve is given."""


@dataclass(frozen=True)
class Curve:
    """Mean reward along steps, with a central interval at each."""

    steps: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    """Of the intervals."""


def fitted(found: Fit) -> Curve:
    """Return the mean reward over the points that were fitted; the interval is of the mean, not of single points."""
    x = np.linspace(float(found.data.x[0]), float(found.data.x[-1]), POINTS)
    return _curve(found, x, outlook.level_at(found.curves, found.data, x))


def foretold(found: Fit, trend: bool = True) -> Curve | None:
    """Return the mean reward from the last point to the planned end, None where none is planned or it is reached.

    The interval holds the chance that the run changes its course, as that of `Forecast.final` does.

    Args:
        found: the fit.
        trend: whether a trend is identified; without one the value stays at the level, as that of `Forecast.final`.
    """
    end, last = found.end, float(found.data.x[-1])
    if end is None or end <= last:
        return None
    x = np.linspace(last, end, POINTS // 2)
    whole = end - min(0.0, float(found.series.position[0]))
    draws = [
        outlook.predicted(found.curves, found.data, float(at), (float(at) - last) / whole, found.series.bounds)
        for at in x
    ]
    ahead = _curve(found, x, np.stack(draws, axis=1))
    if trend:
        return ahead
    level = outlook.interval(outlook.level_at(found.curves, found.data, found.data.x[-1:])[:, 0]).value
    stays = tuple(min(max(level, low), high) for low, high in zip(ahead.low, ahead.high, strict=True))
    return replace(ahead, value=stays)


def _curve(found: Fit, x: Floats, draws: Floats) -> Curve:
    at = [outlook.interval(column) for column in draws.T]
    return Curve(
        steps=tuple(found.series.step_at(float(position)) for position in x),
        value=tuple(one.value for one in at),
        low=tuple(one.low for one in at),
        high=tuple(one.high for one in at),
        level=outlook.LEVEL,
    )
