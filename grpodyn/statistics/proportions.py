"""Intervals of shares: one share, and the difference of two shares of the same items."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from grpodyn.errors import UsageError
from grpodyn.statistics.interval import Interval, check_level


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Return the score interval of a share of `n` independent trials.

    (p̂ + z²/2n ± z √(p̂(1−p̂)/n + z²/4n²)) / (1 + z²/n)

    Holds up where the usual ±z·SE does not: few trials, and shares at or near 0 and 1.

    Args:
        successes: from 0 to n.
        n: number of trials; of none the share is nan and the interval the whole of [0, 1].
        level: confidence.

    Raises:
        UsageError: more successes than trials, or a negative number.

    Reference:
        Wilson, JASA 22 (1927) 209; recommended by Brown, Cai and DasGupta, Statistical Science 16 (2001) 101.

    >>> print(wilson(15, 148))
    0.101 [0.062, 0.160]
    """
    check_level(level)
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} successes of {n} trials: expected from 0 to the number of trials")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, level)
    z = float(norm.isf((1 - level) / 2))
    share = successes / n
    shrink = 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    # At the ends the formula is exact and rounding is not.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(share, low, high, level)


def paired_share_interval(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Return the interval of mean(a) − mean(b) where both are 0 or 1 on the same items.

    With n₁₀ items right in `a` alone and n₀₁ in `b` alone, p̃ = (count + 1)/(n + 2):
    p̃₁₀ − p̃₀₁ ± z √((p̃₁₀ + p̃₀₁ − (p̃₁₀ − p̃₀₁)²)/(n + 2)), cut at ±1. The value is the plain difference.

    Unlike a t interval it keeps a width when no item changed, which 50 equal items do not prove of the next one.

    Args:
        a: (n,) of 0 and 1.
        b: (n,), the same items in the same order.
        level: confidence.

    Raises:
        UsageError: lengths differ, nothing is given, or a value is neither 0 nor 1.

    Reference:
        Bonett and Price, J. Educational and Behavioral Statistics 37 (2012) 479.

    >>> print(paired_share_interval([1, 1, 1, 0, 0, 1], [0, 1, 0, 0, 0, 1]))
    0.333 [-0.208, 0.708]
    """
    check_level(level)
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise UsageError(f"paired shares of shapes {x.shape} and {y.shape}: expected the same items in one dimension")
    if not (np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all()):
        raise UsageError("paired shares hold a value other than 0 and 1; use paired_interval for other outcomes")
    z = float(norm.isf((1 - level) / 2))
    n = x.size
    only_a = (float(np.sum(x > y)) + 1) / (n + 2)
    only_b = (float(np.sum(y > x)) + 1) / (n + 2)
    middle = only_a - only_b
    half = z * math.sqrt((only_a + only_b - middle * middle) / (n + 2))
    return Interval(float(np.mean(x - y)), max(-1.0, middle - half), min(1.0, middle + half), level)
