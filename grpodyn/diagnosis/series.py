"""Series over steps, and what can be said of them: levels, changes beyond noise, and since when. All in linear time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHORTEST = 20
"""Rows under which nothing is said about a trend."""


@dataclass(frozen=True)
class Level:
    """A mean and its standard error, with neighbours allowed to be alike."""

    mean: float
    error: float
    rows: int


@dataclass(frozen=True)
class Series:
    """One quantity, without the rows that do not hold it."""

    steps: NDArray[np.int64]
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, which: slice) -> Series:
        """Return some of the rows."""
        return Series(self.steps[which], self.values[which])

    @property
    def first(self) -> Series:
        """The first tenth, at least 5 rows."""
        return self.rows(slice(0, max(5, len(self) // 10)))

    @property
    def last(self) -> Series:
        """The last fifth, at least 5 rows."""
        return self.rows(slice(-max(5, len(self) // 5), None))

    @cached_property
    def level(self) -> Level:
        """Mean and standard error; the error grows with the correlation of neighbours, and a slope is no noise."""
        n = len(self)
        if n == 0:
            return Level(math.nan, math.inf, 0)
        mean = float(self.values.mean())
        if n < 3:
            return Level(mean, math.inf, n)
        place = np.arange(n) - (n - 1) / 2
        residual = self.values - mean - place * float(place @ self.values) / float(place @ place)
        variance = float(residual @ residual) / (n - 2)
        if variance <= 0:
            return Level(mean, 0.0, n)
        correlation = float(residual[1:] @ residual[:-1]) / float(residual @ residual)
        correlation = min(max(correlation, 0.0), 0.95)
        return Level(mean, math.sqrt(variance / n * (1 + correlation) / (1 - correlation)), n)

    @property
    def smooth(self) -> Floats:
        """Mean over the rows up to each row, a twentieth of the series and 5 to 25 rows wide."""
        return trailing_mean(self.values, smoothing(len(self)))

    def since(self, holds: Mask) -> int | None:
        """Return the step from which `holds` is true to the end; None if it is not true at the end."""
        if len(holds) == 0 or not holds[-1]:
            return None
        wrong = np.flatnonzero(~holds)
        return int(self.steps[0 if wrong.size == 0 else wrong[-1] + 1])


NOTHING = Series(np.array([], dtype=np.int64), np.array([], dtype=np.float64))


def smoothing(rows: int) -> int:
    """Return over how many rows a series of so many is smoothed: an onset is known no better than that.

    >>> smoothing(30), smoothing(200), smoothing(4000)
    (5, 10, 25)
    """
    return min(max(rows // 20, 5), 25)


def trailing_mean(values: Floats, width: int) -> Floats:
    """Return the mean of the last `width` values at each place, of fewer at the beginning.

    >>> trailing_mean(np.array([1.0, 3.0, 5.0]), 2)
    array([1., 2., 4.])
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - width)
    return np.asarray((sums[end] - sums[start]) / (end - start))


def rise(before: Series, after: Series) -> tuple[float, float]:
    """Return how much the level rose, and that over its standard error (0 where both are without noise and equal)."""
    a, b = before.level, after.level
    difference = b.mean - a.mean
    error = math.hypot(a.error, b.error)
    if error == 0:
        return difference, 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference, difference / error if math.isfinite(error) else 0.0


def overall_rise(series: Series) -> tuple[float, float]:
    """Return `rise` from the first rows to the last."""
    return rise(series.first, series.last)


def trailing_median(values: Floats, block: int = 25) -> Floats:
    """Return, at each place, the median of the whole blocks before it, the last four of them; nan in the first block.

    A running median by blocks: linear in the length, and untouched by what it is compared with.
    """
    n = len(values)
    result = np.full(n, np.nan)
    blocks = [values[start : start + block] for start in range(0, n, block)]
    for i in range(1, len(blocks)):
        past = np.concatenate(blocks[max(0, i - 4) : i])
        result[i * block : (i + 1) * block] = np.median(past)
    return result
