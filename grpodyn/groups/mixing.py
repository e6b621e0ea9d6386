"""How solve rates are spread over prompts, without assuming a shape, and what larger groups would then be like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import binom

Floats = NDArray[np.float64]

GRID: Floats = np.sin(np.linspace(0, math.pi / 2, 241)) ** 2
"""Solve rates that a mixing distribution may hold; dense near 0 and 1, where large groups tell rates apart."""
GRID[0], GRID[-1] = 0.0, 1.0
_ITERATIONS = 200
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Mixing:
    """A distribution over solve rates: weights on `GRID`."""

    weights: Floats

    def mean(self, function: Callable[[Floats], Floats]) -> float:
        """Return the expectation of a function of the solve rate."""
        return float(self.weights @ function(GRID))

    def all_right(self, g: int) -> float:
        """Return E[p^g]."""
        return self.mean(lambda p: p**g)

    def all_wrong(self, g: int) -> float:
        """Return E[(1 − p)^g]."""
        return self.mean(lambda p: (1 - p) ** g)

    def dead(self, g: int) -> float:
        """Return the share of groups of g without spread."""
        return self.all_right(g) + self.all_wrong(g)


def fit(counts: NDArray[np.float64]) -> Mixing:
    """Return the non-parametric maximum likelihood mixing distribution.

    Maximises Σ_k n_k log Σ_j w_j Binomial(k; G, p_j) over the weights, by the constrained Newton method.

    Args:
        counts: (G + 1,): recorded groups with k right completions.

    Reference:
        Lindsay, Annals of Statistics 11 (1983) 86; Wang, J. Royal Statistical Society B 69 (2007) 185.
    """
    seen, likelihood = likelihoods(counts)
    share = counts[seen] / counts.sum()
    weights = np.full(len(GRID), 1 / len(GRID))
    for _ in range(_ITERATIONS):
        score = likelihood / (likelihood @ weights)[:, None]
        # At the maximum no direction towards a single rate gains anything.
        if float((share @ score).max()) - 1 < _TOLERANCE:
            break
        weights = _step(share, score, weights, likelihood)
    return Mixing(weights)


def likelihoods(counts: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the right counts that were seen, and (seen, rates): the chance of each at every rate of `GRID`."""
    seen = np.flatnonzero(counts > 0)
    return seen, np.asarray(binom.pmf(seen[:, None], len(counts) - 1, GRID[None, :]), np.float64)


def _step(share: Floats, score: Floats, weights: Floats, likelihood: Floats) -> Floats:
    """One constrained Newton step: a least-squares problem with non-negative weights, then a line search."""
    root = np.sqrt(share)
    heavy = 1e3  # holds the sum of the weights at 1
    design = np.vstack([root[:, None] * score, np.full((1, score.shape[1]), heavy)])
    target, _ = nnls(design, np.append(2 * root, heavy))
    target /= target.sum()
    before, length = float(share @ np.log(likelihood @ weights)), 1.0
    while length > 1e-10:
        moved = weights + length * (target - weights)
        if float(share @ np.log(np.maximum(likelihood @ moved, 1e-300))) > before:
            return np.asarray(moved, np.float64)
        length /= 2
    return weights
