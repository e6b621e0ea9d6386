"""Whether a curve went one way: turning points that noise does not explain.

No form of `forms` rises and then falls. Where a curve has turned once, what follows the turn is what can be forecast;
where it turns again and again, it oscillates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NORMAL_MAD = 1.4826
_RHOS: Floats = np.linspace(0.0, 0.8, 81)
ERRORS = 5.0
"""A reversal of so many standard errors between two block means is one."""
CLEAR_ERRORS = 8.0
"""So many where it takes several reversals to say something: strongly correlated noise turns now and then."""
_BLOCKS = 14
_LEAST = 4


def autocorrelation(y: Floats) -> tuple[float, float]:
    """Return standard deviation and ρ of AR(1) noise about a smooth curve.

    From second differences over one and over two points, which a curve that is locally straight does not move:
    var (y_i − 2 y_{i−k} + y_{i−2k}) = 2σ²(1 − ρᵏ)(3 − ρᵏ). By their median size, so that the few points at a bend do
    not count as noise.

    >>> sigma, rho = autocorrelation(np.random.default_rng(0).standard_normal(4000) + np.arange(4000))
    >>> abs(sigma - 1) < 0.1, rho < 0.1
    (True, True)
    """
    if len(y) < 8:
        return float(np.std(y)), 0.0
    one, two = (_variance(y[2 * lag :] - 2 * y[lag:-lag] + y[: -2 * lag]) for lag in (1, 2))
    if one <= 0:
        return 0.0, 0.0
    expected = _difference_variance(_RHOS**2) / _difference_variance(_RHOS)
    rho = float(np.interp(two / one, expected, _RHOS))
    return float(np.sqrt(one / _difference_variance(rho))), rho


def _difference_variance(rho: Floats | float) -> Floats | float:
    return 2 * (1 - rho) * (3 - rho)


def _variance(differences: Floats) -> float:
    size = float(np.median(np.abs(differences)))
    # Rewards of few completions often do not change at all.
    return (_NORMAL_MAD * size) ** 2 if size > 0 else float(np.mean(differences**2))


@dataclass(frozen=True)
class Course:
    """Where a curve turned, and which way it went last."""

    turns: tuple[int, ...]
    """Points (indices)."""
    direction: int
    """1 up, −1 down, 0 if it moved by no more than noise."""


def course(y: Floats, scale: Floats, epsilon: float, errors: float = ERRORS) -> Course:
    """Return where a curve turned.

    Args:
        y: values, shape (n,).
        scale: standard deviation of each point up to a common factor.
        epsilon: a reversal smaller than this is none.
        errors: nor is one of fewer standard errors.
    """
    width = max(_LEAST, len(y) // _BLOCKS)
    if len(y) < 3 * width:
        return Course((), 0)
    sigma, rho = autocorrelation(y / scale)
    edges = np.arange(len(y) % width, len(y), width)
    means = np.add.reduceat(y, edges) / width
    # Effective points of an AR(1) block.
    error = sigma * np.sqrt(np.add.reduceat(scale**2, edges) / width * (1 + rho) / (1 - rho) / width)
    middle = edges + width // 2
    turns, direction = _zigzag(means, errors * error, epsilon)
    return Course(tuple(int(middle[block]) for block in turns), direction)


def _zigzag(level: Floats, error: Floats, epsilon: float) -> tuple[list[int], int]:
    """Return the blocks at which the level turned by more than its error explains, and its last direction."""
    turns: list[int] = []
    low = high = 0
    direction = 0
    for block in range(1, len(level)):
        low = block if level[block] < level[low] else low
        high = block if level[block] > level[high] else high
        falls = level[high] - level[block] > max(epsilon, float(np.hypot(error[high], error[block])))
        rises = level[block] - level[low] > max(epsilon, float(np.hypot(error[low], error[block])))
        if direction >= 0 and falls:
            # A fall from later than the start has a peak before it, even if the rise to it was small.
            turns += [high] if high > 0 else []
            direction, low = -1, block
        elif direction <= 0 and rises:
            turns += [low] if direction < 0 else []
            direction, high = 1, block
    return turns, direction
