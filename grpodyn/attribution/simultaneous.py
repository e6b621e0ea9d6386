"""Intervals of many means over the same prompts that hold all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from grpodyn.statistics import Interval
from grpodyn.statistics.interval import check_level

Floats = NDArray[np.float64]
_DRAWS = 2000
_NO_SPREAD = 1e-12
_RULE_OF_THREE = 3.0
"""What is not seen in n draws has, with 95 %, a probability below 3/n."""


@dataclass(frozen=True)
class Estimates:
    """Estimates that are means over prompts, or smooth functions of such means."""

    values: Floats
    """(m,)"""
    errors: Floats
    """(m,) standard errors."""
    critical: float
    """Half-widths of the simultaneous intervals, in standard errors."""
    level: float
    least: Floats | None = None
    """(m,) half-widths below which no interval goes; None for none."""

    def interval(self, index: int) -> Interval:
        """Return one of the simultaneous intervals."""
        value, half = float(self.values[index]), float(self.critical * self.errors[index])
        if self.least is not None:
            half = max(half, float(self.least[index]))
        return Interval(value, value - half, value + half, self.level)


def means(outcomes: Floats, level: float, seed: int = 0, sampled: bool = False) -> Estimates:
    """Return the means of the columns, with intervals that cover all true means at once with probability `level`.

    Args:
        outcomes: (n, m), a row is a prompt.
        level: joint confidence.
        seed: of the bootstrap.
        sampled: whether outcomes come from samples. A column without any spread is then no certainty: a prompt on which
            it differs may have been missed, and its bounds are ±3/n (the rule of three). Exact probabilities that are
            all alike are alike.
    """
    values = outcomes.mean(axis=0)
    found = estimates(values, outcomes - values, level, seed)
    return replace(found, least=_unseen(outcomes)) if sampled else found


def ratios(numerators: Floats, denominator: Floats, level: float, seed: int = 0, sampled: bool = False) -> Estimates:
    """Return mean(a_j) / mean(g) of each column with simultaneous intervals.

    By the delta method: the ratio's influence of prompt i is (a_ij − ρ_j·g_i) / mean(g). It needs a mean of g that is
    several standard errors away from 0.

    Args:
        numerators: (n, m)
        denominator: (n,)
        level: joint confidence.
        seed: of the bootstrap.
        sampled: as for `means`.
    """
    whole = float(denominator.mean())
    if whole == 0:
        unknown = np.full(numerators.shape[1], np.nan)
        return Estimates(unknown, unknown, float("nan"), level)
    values = numerators.mean(axis=0) / whole
    found = estimates(values, (numerators - denominator[:, None] * values) / whole, level, seed)
    return replace(found, least=_unseen(numerators) / abs(whole)) if sampled else found


def estimates(values: Floats, influence: Floats, level: float, seed: int = 0) -> Estimates:
    """Return estimates from the influence of each prompt on them, (n, m), of which each column has mean 0."""
    n = influence.shape[0]
    errors = influence.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(influence.shape[1], np.nan)
    return Estimates(values, errors, critical_value(influence, level, seed), level)


def critical_value(influence: Floats, level: float, seed: int = 0) -> float:
    """Return c so that all |estimate − truth| ≤ c · standard error with probability `level`.

    The quantile of max_j |Σ_i w_i ψ_ij| / sd_j over standard normal weights w (the multiplier bootstrap; it keeps the
    dependence between the columns: all share the prompts and the base), widened from a normal to a t distribution.

    Reference:
        Chernozhukov, Chetverikov and Kato, Annals of Statistics 41 (2013) 2786.
    """
    check_level(level)
    n = influence.shape[0]
    centred = influence - influence.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0))
    # A part whose change does nothing at all has no error, and takes no share of the allowance.
    moving = scale > 1e-12 * max(1.0, float(np.abs(centred).max(initial=0.0)))
    if n < 2 or not moving.any():
        return float("nan") if n < 2 else 0.0
    standardised = centred[:, moving] / scale[moving]
    quantile = float(np.quantile(np.abs(_weights(n, seed) @ standardised).max(axis=1), level))
    # The same tail probability under t, as standard errors are estimated.
    tail = float(norm.sf(quantile))
    return float(student.isf(tail, n - 1))


def _unseen(outcomes: Floats) -> Floats:
    """Return 3/n for columns whose rows are all alike, else 0."""
    still = np.ptp(outcomes, axis=0) <= _NO_SPREAD
    found: Floats = np.where(still, _RULE_OF_THREE / outcomes.shape[0], 0.0)
    return found


@lru_cache(maxsize=4)
def _weights(n: int, seed: int) -> Floats:
    """One draw serves every family over the same prompts."""
    return np.random.default_rng(seed).standard_normal((_DRAWS, n))
