"""Intervals of means, of paired differences and of ratios of means."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from scipy.stats import t as student

from grpodyn.statistics.interval import Interval, check_level
from grpodyn.statistics.samples import Clusters, clustered, differences, vector

Method = Literal["t", "bca"]
_RESAMPLES = 2000
_DRAWN_AT_ONCE = 1 << 20


def standard_error(of: Clusters) -> float:
    """Return the standard error of the mean over observations that come in clusters; nan for a single cluster.

    √(g/(g−1) · Σ_j (S_j − n_j·x̄)²) / n, with S_j the sum and n_j the size of cluster j of g. Without clusters it is
    s/√n.

    Reference:
        the linearised variance of a ratio (Cochran, Sampling Techniques, 1977, ch. 6); as the cluster-robust CR1 in
        Cameron and Miller, J. Human Resources 50 (2015) 317.
    """
    g = of.sums.size
    if g < 2:
        return math.nan
    residual = of.sums - of.sizes * of.mean
    return math.sqrt(g / (g - 1) * float(residual @ residual)) / float(of.sizes.sum())


def mean_interval(
    values: ArrayLike,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    *,
    method: Method = "t",
    seed: int = 0,
) -> Interval:
    """Return the mean and its interval.

    `t` is mean ± t(g−1)·SE over g clusters. It covers as stated for outcomes of seeds, also few ones, as long as they
    are not very skewed. `bca` resamples whole clusters (bias-corrected, accelerated): for skewed outcomes of many
    prompts; below about 20 clusters it is too narrow.

    Args:
        values: (n,) outcomes.
        level: confidence.
        clusters: (n,) labels; observations of one label (samples of one prompt) are not independent.
        method: as above.
        seed: of the resampling.

    Raises:
        UsageError: values that are not finite, or labels that do not fit.

    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2.000 [-0.484, 4.484]
    """
    check_level(level)
    data = clustered(vector(values, "outcomes"), clusters)
    if data.sums.size < 2:
        return Interval(data.mean, math.nan, math.nan, level)
    low, high = _t(data, level) if method == "t" else _bca(data, level, seed)
    return Interval(data.mean, low, high, level)


def paired_interval(
    a: ArrayLike,
    b: ArrayLike,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    *,
    method: Method = "t",
    seed: int = 0,
) -> Interval:
    """Return mean(a − b) and its interval, the pairs being seeds, prompts or samples of prompts.

    Args:
        a: (n,) outcomes.
        b: (n,) outcomes of the same seeds or prompts, in the same order.
        level: confidence.
        clusters: (n,) labels, as in `mean_interval`.
        method: as in `mean_interval`.
        seed: of the resampling.

    Raises:
        UsageError: the lengths differ, or as `mean_interval`.

    >>> print(paired_interval([0.65, 0.66, 0.64], [0.60, 0.58, 0.60]))
    0.057 [0.005, 0.108]
    """
    return mean_interval(differences(a, b), level, clusters, method=method, seed=seed)


def ratio_interval(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Return mean(a) / mean(b) and its interval, over pairs.

    All ρ for which a t test does not refuse mean(a − ρ·b) = 0 (Fieller). Where mean(b) is not separable from 0 that
    set has no two ends, and the bounds are −inf and inf: the data then say nothing about the ratio.

    Args:
        a: (n,)
        b: (n,) of the same seeds.
        level: confidence.

    Raises:
        UsageError: the lengths differ, or values are not finite.

    Reference:
        Fieller, J. Royal Statistical Society B 16 (1954) 175.

    >>> print(ratio_interval([9.0, 10.0, 11.5], [10.0, 10.5, 11.0]))
    0.968 [0.760, 1.133]
    """
    check_level(level)
    differences(a, b)
    x, y = vector(a, "outcomes of a"), vector(b, "outcomes of b")
    mean_a, mean_b, n = float(x.mean()), float(y.mean()), x.size
    value = mean_a / mean_b if mean_b != 0 else math.nan
    if n < 2:
        return Interval(value, math.nan, math.nan, level)
    cov = np.cov(x, y) / n
    t2 = float(student.isf((1 - level) / 2, n - 1)) ** 2
    # (mean_a − ρ mean_b)² ≤ t²(v_a − 2ρ c + ρ² v_b), a quadratic in ρ.
    quadratic = mean_b * mean_b - t2 * float(cov[1, 1])
    linear = mean_a * mean_b - t2 * float(cov[0, 1])
    constant = mean_a * mean_a - t2 * float(cov[0, 0])
    root = linear * linear - quadratic * constant
    if quadratic <= 0 or root < 0:
        return Interval(value, -math.inf, math.inf, level)
    half = math.sqrt(root)
    return Interval(value, (linear - half) / quadratic, (linear + half) / quadratic, level)


def _t(data: Clusters, level: float) -> tuple[float, float]:
    half = float(student.isf((1 - level) / 2, data.sums.size - 1)) * standard_error(data)
    return data.mean - half, data.mean + half


def _bca(data: Clusters, level: float, seed: int) -> tuple[float, float]:
    """Bias-corrected and accelerated percentile interval, whole clusters resampled (Efron, JASA 82 (1987) 171)."""
    g, mean = data.sums.size, data.mean
    rng = np.random.default_rng(seed)
    rows = max(1, _DRAWN_AT_ONCE // g)
    parts = []
    for start in range(0, _RESAMPLES, rows):
        drawn = rng.integers(0, g, (min(rows, _RESAMPLES - start), g))
        parts.append(data.sums[drawn].sum(axis=1) / data.sizes[drawn].sum(axis=1))
    replicates = np.sort(np.concatenate(parts))
    if replicates[0] == replicates[-1]:
        return mean, mean
    # Half of the ties: lumpy outcomes repeat the estimate itself often.
    below = float(np.mean(replicates < mean) + np.mean(replicates == mean) / 2)
    edge = 0.5 / _RESAMPLES
    bias = float(norm.ppf(min(max(below, edge), 1 - edge)))
    left_out = (data.sums.sum() - data.sums) / (data.sizes.sum() - data.sizes)
    centred = left_out.mean() - left_out
    spread = float(np.sum(centred**2)) ** 1.5
    acceleration = float(np.sum(centred**3)) / (6 * spread) if spread > 0 else 0.0

    def bound(tail: float) -> float:
        z = bias + float(norm.ppf(tail))
        return float(np.quantile(replicates, norm.cdf(bias + z / (1 - acceleration * z))))

    return bound((1 - level) / 2), bound((1 + level) / 2)
