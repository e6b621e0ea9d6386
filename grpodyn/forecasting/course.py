"""Whether a curve went one way: turning points that noise does not explain.

No form of `forms` rises and then falls. Where a curve has turned once, what follows the turn is what can be forecast;
where it turns again and again, it oscillates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ERRORS = 5.0
"""A reversal of so many standard errors between two block means is one."""
_BLOCKS = 14
_LEAST = 4


def autocorrelation(y: Floats) -> tuple[float, float]:
    """Return standard deviation and ρ of AR(1) noise about a smooth curve.

    From differences over one and two points, which a slow trend hardly moves: E d₁²/2 = σ²(1−ρ), E d₂²/2 = σ²(1−ρ²).

    >>> sigma, rho = autocorrelation(np.tile([0.0, 1.0], 50))
    >>> round(sigma, 2), rho
    (0.71, 0.0)
    """
    if len(y) < 4:
        return float(np.std(y)), 0.0
    one, two = (float(np.mean((y[lag:] - y[:-lag]) ** 2)) / 2 for lag in (1, 2))
    if one <= 0:
        return 0.0, 0.0
    rho = float(np.clip(two / one - 1, 0.0, 0.9))
    return float(np.sqrt(one / (1 - rho))), rho


def turning_points(y: Floats, scale: Floats, epsilon: float) -> list[int]:
    """Return the points (indices) where the curve turned.

    Args:
        y: values, shape (n,).
        scale: standard deviation of each point up to a common factor.
        epsilon: a reversal smaller than this is none.
    """
    width = max(_LEAST, len(y) // _BLOCKS)
    if len(y) < 3 * width:
        return []
    sigma, rho = autocorrelation(y / scale)
    edges = np.arange(len(y) % width, len(y), width)
    means = np.add.reduceat(y, edges) / width
    # Effective points of an AR(1) block.
    error = sigma * np.sqrt(np.add.reduceat(scale**2, edges) / width * (1 + rho) / (1 - rho) / width)
    middle = edges + width // 2
    return [int(middle[block]) for block in _zigzag(means, error, epsilon)]


def _zigzag(level: Floats, error: Floats, epsilon: float) -> list[int]:
    """Return the blocks at which the level turned by more than its error explains."""
    turns: list[int] = []
    low = high = 0
    direction = 0
    for block in range(1, len(level)):
        low = block if level[block] < level[low] else low
        high = block if level[block] > level[high] else high
        falls = level[high] - level[block] > max(epsilon, _ERRORS * float(np.hypot(error[high], error[block])))
        rises = level[block] - level[low] > max(epsilon, _ERRORS * float(np.hypot(error[low], error[block])))
        if direction >= 0 and falls:
            turns += [high] if direction > 0 else []
            direction, low = -1, block
        elif direction <= 0 and rises:
            turns += [low] if direction < 0 else []
            direction, high = 1, block
    return turns
