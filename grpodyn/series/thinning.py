"""Long series cut down to what a picture can show: means over blocks of neighbouring rows, never samples of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def block_starts(rows: int, most: int) -> NDArray[np.intp]:
    """Return the first row of each block, of which there are at most `most`; all but the last have one length.

    >>> block_starts(5, 2).tolist(), block_starts(3, 10).tolist()
    ([0, 3], [0, 1, 2])
    """
    return np.arange(0, rows, max(1, -(-rows // most)), dtype=np.intp)


def block_means(values: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the mean of the finite values of each block along the first axis; nan where there is none.

    >>> block_means(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 2])).tolist()
    [2.0, 5.0]
    """
    finite = np.isfinite(values)
    count = np.add.reduceat(finite, starts, axis=0, dtype=np.float64)
    total = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=0)
    means: Floats = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return means


def block_ends(values: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the last value of each block along the first axis.

    >>> block_ends(np.array([1.0, 2.0, 3.0]), np.array([0, 2])).tolist()
    [2.0, 3.0]
    """
    ends: Floats = values[np.append(starts[1:], len(values)) - 1]
    return ends
