"""How many directions a matrix uses, from its singular values. Pure numpy.

Every function takes singular values in any order and any unit, and is dimensionless. Of a zero matrix (or of no values)
every rank is 0; of values with nan or inf it is nan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def _normalised(singular_values: FloatArray) -> FloatArray | float:
    """Return the values over their largest, or the rank itself where it needs no formula: 0 or nan."""
    values = np.asarray(singular_values, dtype=np.float64)
    if not np.isfinite(values).all():
        return float("nan")
    largest = values.max(initial=0.0)
    return values / largest if largest > 0.0 else 0.0


def effective_rank(singular_values: FloatArray) -> float:
    """Return exp(−Σ pᵢ ln pᵢ) with pᵢ = σᵢ/Σσ, between 1 and the number of values.

    Reference: Roy & Vetterli, The effective rank (EUSIPCO 2007), definition 1.

    >>> round(effective_rank(np.array([3.0, 1.0])), 6)
    1.754765
    """
    values = _normalised(singular_values)
    if isinstance(values, float):
        return values
    p = values[values > 0.0] / values.sum()
    p = p[p > 0.0]
    return float(np.exp(-np.sum(p * np.log(p))))


def stable_rank(singular_values: FloatArray) -> float:
    """Return ‖·‖_F²/‖·‖₂² = Σσᵢ²/σ₁², between 1 and the number of values.

    Reference: Rudelson & Vershynin, Sampling from large matrices (J. ACM 54, 2007), section 1.

    >>> stable_rank(np.array([4.0, 2.0, 1.0]))
    1.3125
    """
    values = _normalised(singular_values)
    return values if isinstance(values, float) else float(np.sum(values**2))


def energy_rank(singular_values: FloatArray, fraction: float) -> float:
    """Return the fewest singular values that hold `fraction` of Σσᵢ².

    Raises:
        ValueError: `fraction` is not in (0, 1].

    Reference: Jolliffe, Principal Component Analysis (2nd ed., 2002), section 6.1.1.

    >>> energy_rank(np.array([3.0, 1.0]), 0.9), energy_rank(np.array([3.0, 1.0]), 0.91)
    (1.0, 2.0)
    """
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"fraction {fraction} of the energy is outside (0, 1]")
    values = _normalised(singular_values)
    if isinstance(values, float):
        return values
    energy = np.cumsum(np.sort(values)[::-1] ** 2)
    # One rounding unit of slack: 9 of 10 is 90 %, whatever the last bit says.
    enough = energy >= fraction * energy[-1] * (1.0 - 1e-12)
    return float(np.argmax(enough) + 1)
