"""From added sums of squares to norms and ratios, elementwise. Pure numpy.

Undefined is nan: a tensor that holds NaN or Inf has no norm, and nothing is a share of zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def root(squares: FloatArray) -> FloatArray:
    """Return √squares; nan where a sum is not finite.

    >>> root(np.array([25.0, 0.0, np.inf]))
    array([ 5.,  0., nan])
    """
    squares = np.asarray(squares, dtype=np.float64)
    return np.sqrt(np.where(np.isfinite(squares), squares, np.nan))


def share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part/whole; nan where either is not finite or the whole is 0.

    >>> share(np.array([1.0, 0.0, np.nan]), np.array([4.0, 0.0, 1.0]))
    array([0.25,  nan,  nan])
    """
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    known = np.isfinite(part) & np.isfinite(whole) & (whole > 0.0)
    return np.where(known, part, np.nan) / np.where(known, whole, 1.0)


def counted_share(count: FloatArray, elements: FloatArray, squares: FloatArray) -> FloatArray:
    """Return count/elements; nan where the squared norm of what was counted over is not finite, or there is nothing.

    >>> counted_share(np.array([1.0, 2.0]), np.array([4.0, 4.0]), np.array([0.5, np.nan]))
    array([0.25,  nan])
    """
    return share(np.where(np.isfinite(squares), count, np.nan), elements)


def root_ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return √numerator/√denominator; nan where either is not finite or the denominator is 0.

    >>> root_ratio(np.array([1.0, 0.0, 1.0]), np.array([4.0, 4.0, 0.0]))
    array([0.5, 0. , nan])
    """
    below = root(denominator)
    return root(numerator) / np.where(below > 0.0, below, np.nan)
