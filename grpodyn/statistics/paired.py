"""Paired tests: difference, non-inferiority, equivalence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom
from scipy.stats import t as student

from grpodyn.errors import UsageError
from grpodyn.statistics.interval import Interval, check_level
from grpodyn.statistics.means import mean_interval, standard_error
from grpodyn.statistics.samples import Vector, clustered, differences

Alternative = Literal["two-sided", "greater", "less"]

_EXACT_UP_TO = 16
_FLIPS = 65536
_ROUNDING = 1e-12
"""Of a mean: a standard error below it is what floats leave of equal numbers."""


@dataclass(frozen=True)
class TestResult:
    """What a test of paired outcomes says."""

    __test__ = False  # pytest collects classes of this name

    difference: Interval
    """Of means, a − b."""
    p: float
    """nan where there is no spread to judge by."""
    n: int
    """Independent pairs (clusters)."""
    method: str


def paired_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    method: Literal["t", "sign-flip"] = "t",
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> TestResult:
    """Test whether the mean of a − b is 0 (or, one-sided, at most or at least 0).

    `t` is Student's test on the pairs' differences. `sign-flip` asks how many of the 2^n ways to swap the two outcomes
    inside pairs give a mean at least as large (all of them up to n = 16, else 65,536 random ones, the given one
    counted): no normality is assumed, but n = 5 pairs cannot give less than 1/16 two-sided.

    Args:
        a: (n,) outcomes.
        b: (n,) of the same seeds or prompts.
        alternative: `greater` is mean(a) > mean(b).
        method: as above.
        clusters: (n,) labels of observations that are not independent.
        level: of the interval that comes with the result.
        seed: of the random flips.

    Raises:
        UsageError: the lengths differ, or values are not finite.

    >>> round(paired_test([3.0, 5.0, 4.0, 6.0], [1.0, 2.0, 3.0, 4.0]).p, 4)
    0.0163
    """
    values = differences(a, b)
    data = clustered(values, clusters)
    interval = mean_interval(values, level, clusters)
    if method == "sign-flip":
        p = _sign_flip(data.sums, alternative, seed)
    else:
        p = _t_p(data.mean, standard_error(data), data.sums.size - 1, alternative)
    return TestResult(interval, p, int(data.sums.size), method)


def mcnemar(a: ArrayLike, b: ArrayLike) -> float:
    """Return the exact two-sided p that two ways to answer the same items, each right (1) or wrong (0), are as good.

    Only items on which they differ count: 2·P(X ≤ min(n₁₀, n₀₁)), X ~ Bin(n₁₀ + n₀₁, ½), at most 1.

    Raises:
        UsageError: the lengths differ.

    Reference:
        McNemar, Psychometrika 12 (1947) 153, in its exact form.

    >>> mcnemar([1] * 8 + [0], [0] * 8 + [1])
    0.0390625
    """
    values = differences(a, b)
    only_a, only_b = int(np.sum(values > 0)), int(np.sum(values < 0))
    if only_a + only_b == 0:
        return 1.0
    return min(1.0, 2 * float(binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)))


@dataclass(frozen=True)
class Equivalence:
    """Whether a difference lies inside a margin."""

    difference: Interval
    """Its level is 1 − 2α: inside ±margin exactly when both one-sided tests reject at α."""
    margin: float
    p: float
    """The larger of the two one-sided p."""
    equivalent: bool


def tost(
    a: ArrayLike, b: ArrayLike, margin: float, *, alpha: float = 0.05, clusters: ArrayLike | None = None
) -> Equivalence:
    """Two one-sided t tests: is |mean(a − b)| < margin?

    Args:
        a: (n,) outcomes.
        b: (n,) of the same seeds or prompts.
        margin: > 0, the largest difference that would not matter, fixed before the outcomes are seen.
        alpha: of each of the two tests, and of the two together.
        clusters: as in `paired_test`.

    Raises:
        UsageError: a margin or alpha that makes no sense, or as `paired_test`.

    Reference:
        Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987) 657.
    """
    _check_margin(margin)
    zero = np.zeros_like(differences(a, b))
    above = paired_test(differences(a, b) + margin, zero, alternative="greater", clusters=clusters)
    below = paired_test(differences(a, b) - margin, zero, alternative="less", clusters=clusters)
    interval = mean_interval(differences(a, b), check_level(1 - 2 * alpha), clusters)
    p = max(above.p, below.p) if not math.isnan(above.p + below.p) else math.nan
    return Equivalence(interval, margin, p, p < alpha)


def non_inferiority(
    a: ArrayLike, b: ArrayLike, margin: float, *, level: float = 0.95, clusters: ArrayLike | None = None
) -> TestResult:
    """Test whether a is worse than b by less than `margin`: H₀ mean(a − b) ≤ −margin, one-sided.

    Args:
        a: (n,) outcomes, larger is better.
        b: (n,) of the same seeds or prompts.
        margin: ≥ 0, fixed before the outcomes are seen; 0 tests for superiority.
        level: of the two-sided interval of mean(a − b).
        clusters: as in `paired_test`.

    Raises:
        UsageError: a margin that makes no sense, or as `paired_test`.
    """
    if margin != 0:
        _check_margin(margin)
    values = differences(a, b)
    shifted = paired_test(values + margin, np.zeros_like(values), alternative="greater", clusters=clusters)
    return TestResult(mean_interval(values, level, clusters), shifted.p, shifted.n, "t, non-inferiority")


def _check_margin(margin: float) -> None:
    if not (margin > 0 and math.isfinite(margin)):
        raise UsageError(f"margin={margin!r} makes no sense: expected the positive difference that would not matter")


def _t_p(mean: float, error: float, freedom: int, alternative: Alternative) -> float:
    # All pairs alike, but for rounding: a t test would call any difference certain after two of them.
    if not error > _ROUNDING * abs(mean):
        return math.nan
    ratio = mean / error
    if alternative == "greater":
        return float(student.sf(ratio, freedom))
    if alternative == "less":
        return float(student.cdf(ratio, freedom))
    return float(2 * student.sf(abs(ratio), freedom))


def _sign_flip(sums: Vector, alternative: Alternative, seed: int) -> float:
    n = sums.size
    if not np.any(sums):
        return math.nan
    if n <= _EXACT_UP_TO:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        totals = (1.0 - 2.0 * bits) @ sums
    else:
        rng = np.random.default_rng(seed)
        totals = np.concatenate([[sums.sum()], (1.0 - 2.0 * rng.integers(0, 2, (_FLIPS, n))) @ sums])
    observed = float(sums.sum())
    # Equal up to rounding counts as equal: swaps of equal pairs must not depend on the order of a sum.
    slack = 1e-12 * float(np.abs(sums).sum())
    if alternative == "greater":
        return float(np.mean(totals >= observed - slack))
    if alternative == "less":
        return float(np.mean(totals <= observed + slack))
    return float(np.mean(np.abs(totals) >= abs(observed) - slack))
