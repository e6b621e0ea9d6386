"""Whether two arms can be told apart, and if not, what difference they could have shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from grpodyn.statistics import Interval, detectable_difference, holm

LEVEL = 0.95
CHANCE = 0.8


@dataclass(frozen=True)
class Separation:
    """The difference of two arms, their seeds being its noise. All but `p` in the unit of what is compared."""

    difference: Interval
    """Second arm minus first; bounds are nan where neither arm has two runs."""
    p: float
    """Of a t test with pooled variance; adjusted for the family once `adjusted` has seen it."""
    seeds: tuple[int, int]
    """Runs of the two arms."""
    detectable: float
    """Smallest difference that so many runs of so much spread show with a chance of 80 %; nan without spread."""

    @property
    def separable(self) -> bool:
        """Whether the difference is more than the noise of seeds."""
        return self.p < 1 - LEVEL

    @property
    def verdict(self) -> str:
        """In words."""
        if min(self.seeds) < 1 or sum(self.seeds) < 3:
            return "one run each: no spread over seeds, so nothing can be told apart"
        if math.isnan(self.p):
            return "no spread over seeds: equal runs cannot be judged by it"
        if self.separable:
            return "separable"
        n = " and ".join(map(str, self.seeds))
        return f"not separable: {n} runs see a difference of {self.detectable:.3g} four times in five, less more rarely"

    @property
    def short(self) -> str:
        """The verdict in a table's width."""
        if math.isnan(self.p):
            return "–"
        return f"p={self.p:.2g}" if self.separable else f"not separable, p={self.p:.2g}, sees {self.detectable:.2g}"


def separation(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Separation:
    """Return how far apart two arms are, one value a run.

    Student's t with pooled variance: (mean b − mean a)/(s √(1/n_a + 1/n_b)), n_a + n_b − 2 degrees of freedom. One run
    against several is judged by the spread of the several.

    Args:
        a: values of the first arm's runs, at least one.
        b: of the second's.
        level: of the interval.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    value = float(y.mean() - x.mean())
    freedom, seeds = x.size + y.size - 2, (int(x.size), int(y.size))
    if freedom < 1:
        return Separation(Interval(value, math.nan, math.nan, level), math.nan, seeds, math.nan)
    pooled = math.sqrt((float(((x - x.mean()) ** 2).sum()) + float(((y - y.mean()) ** 2).sum())) / freedom)
    error = pooled * math.sqrt(1 / x.size + 1 / y.size)
    half = float(student.isf((1 - level) / 2, freedom)) * error
    p = float(2 * student.sf(abs(value) / error, freedom)) if error > 0 else math.nan
    return Separation(Interval(value, value - half, value + half, level), p, seeds, detectable(error, freedom))


def detectable(error: float, freedom: int, level: float = LEVEL, chance: float = CHANCE) -> float:
    """Return the smallest true difference that a two-sided t test finds with probability `chance`.

    Args:
        error: standard error of the difference.
        freedom: its degrees of freedom.
        level: 1 − α of the test.
        chance: power.

    >>> round(detectable(1.0, 1000), 2)
    2.8
    """
    # The t test of a mean over `freedom` + 1 pairs has the same distribution.
    pairs = freedom + 1
    return detectable_difference(error * math.sqrt(pairs), pairs, level=level, chance=chance)


def adjusted(family: Sequence[Separation]) -> list[Separation]:
    """Return the separations of one family with p adjusted by Holm, so that all of them err as rarely as one."""
    return [replace(one, p=p) for one, p in zip(family, holm([one.p for one in family]), strict=True)]
