"""How unevenly something is spread over groups (layers, module types): three statistics of non-negative values.

All three are scale-free and do not depend on the order of the groups. Groups without a value (nan) are left out; of
fewer than two values, or of values that are all zero, the statistic is nan.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOP_SHARE_OF_GROUPS = 0.3
"""The share of groups that `top_share` adds up, as in arXiv 2605.07366."""


def _measured(values: ArrayLike) -> NDArray[np.float64] | None:
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[~np.isnan(array)]
    if array.size < 2 or not np.isfinite(array).all() or array.max() <= 0:
        return None
    return array


def max_over_min(values: ArrayLike) -> float:
    """Return the largest value over the smallest; infinite if a group's value is a measured zero.

    >>> max_over_min([1.0, 2.0, 4.0])
    4.0
    """
    array = _measured(values)
    if array is None:
        return math.nan
    smallest = float(array.min())
    return math.inf if smallest == 0 else float(array.max()) / smallest


def top_share(values: ArrayLike, share_of_groups: float = TOP_SHARE_OF_GROUPS) -> float:
    """Return the part of the total that the largest ⌈share · n⌉ groups hold; equal groups hold ⌈share · n⌉/n.

    >>> top_share([1.0] * 10)
    0.3
    """
    array = _measured(values)
    if array is None:
        return math.nan
    # Rounding guards against 0.3 · 10 = 3.0000000000000004, of which the ceiling would be 4.
    count = max(1, math.ceil(round(share_of_groups * array.size, 9)))
    return float(np.sort(array)[-count:].sum() / array.sum())


def gini(values: ArrayLike) -> float:
    """Return the Gini coefficient Σ_i (2i − n − 1) x_(i) / (n Σ x): 0 if all are equal, (n − 1)/n if one holds all.

    >>> gini([0.0, 0.0, 0.0, 1.0])
    0.75
    """
    array = _measured(values)
    if array is None:
        return math.nan
    ordered = np.sort(array)
    n = ordered.size
    weights = 2 * np.arange(1, n + 1) - n - 1
    # Of equal values the sum can round to just below zero.
    return max(0.0, float((weights * ordered).sum() / (n * ordered.sum())))
