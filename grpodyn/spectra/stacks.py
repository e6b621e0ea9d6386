"""One number for a stack of matrices, such as the experts of a layer. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def weighted_mean(values: Sequence[float | FloatArray], weights: Sequence[float]) -> float:
    """Return Σ wₑ vₑ / Σ wₑ; of one matrix its value, and where nothing has weight the plain mean.

    Weighted by ‖ΔWₑ‖_F², a rank is that of an average unit of squared movement: a matrix that did not move, whose rank
    is 0 by definition, says nothing about those that did.

    >>> weighted_mean([4.0, 0.0], [2.0, 0.0]), weighted_mean([4.0, 2.0], [1.0, 3.0])
    (4.0, 2.5)
    >>> weighted_mean([0.0, 0.0], [0.0, 0.0])
    0.0
    """
    if len(values) == 1:
        return float(values[0])
    scale = np.asarray(weights, dtype=np.float64)
    largest = scale.max()
    # Squares of tiny movements add up to less than the smallest float.
    return float(np.average(np.asarray(values, dtype=np.float64), weights=scale / largest if largest > 0.0 else None))


def pooled(singular_values: Sequence[FloatArray]) -> FloatArray:
    """Return sqrt(mean over matrices of σᵢ²) at each place i: its squares sum to the stack's ‖·‖_F² / matrices.

    Args:
        singular_values: descending, one array of the same length per matrix.

    >>> pooled([np.array([3.0, 1.0]), np.array([4.0, 1.0])]).round(4)
    array([3.5355, 1.    ])
    """
    if len(singular_values) == 1:
        return singular_values[0]
    stacked = np.stack(singular_values)
    largest = float(np.abs(stacked).max(initial=0.0))
    mean: FloatArray = np.sqrt(np.mean(np.square(stacked / largest), axis=0)) * largest if largest > 0.0 else stacked[0]
    return mean
