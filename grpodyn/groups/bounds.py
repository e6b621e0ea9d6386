"""How far larger groups than were sampled can be foretold: the least and the most that the counts allow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog
from scipy.stats import chi2

from grpodyn.errors import GrpodynError
from grpodyn.groups.mixing import GRID, Mixing, likelihoods

Floats = NDArray[np.float64]

_MOST_CUTS = 200
_GAP = 1e-3


@dataclass(frozen=True)
class LikelihoodRegion:
    """The mixing distributions that the counts do not refuse: log-likelihood within `drop` of the greatest.

    Counts out of G fix the first G moments of the distribution of solve rates and no more, so that for larger groups
    even endless data leaves a range; few data widen it.
    """

    counts: Floats
    """(G + 1,): groups with k right completions."""
    best: Mixing
    """The maximum likelihood distribution."""
    drop: float
    _cuts: list[Floats] = field(default_factory=list, init=False, repr=False, compare=False)
    """Tangents found so far; they hold whatever is asked for, so that each question shortens the next."""

    @classmethod
    def at(cls, counts: Floats, best: Mixing, clustering: float = 1.0, level: float = 0.95) -> LikelihoodRegion:
        """Return the region whose bounds of one number hold that number with confidence `level`.

        Args:
            counts: (G + 1,): groups with k right completions.
            best: the maximum likelihood distribution.
            clustering: variance of the counts over that of independent groups; above 1 where prompts come back.
            level: confidence of the bounds.

        Reference:
            Rao and Scott, Annals of Statistics 12 (1984) 46, for the correction of the likelihood ratio.
        """
        return cls(counts, best, float(chi2.ppf(level, 1)) / 2 * clustering)

    def least(self, function: Callable[[Floats], Floats]) -> float:
        """Return the least expectation of a function of the solve rate in the region, to within a thousandth.

        The region is convex. Each linear programme over weights on `GRID` either ends in it, or its way from the best
        distribution leaves the region at a point whose tangent cuts that end off.
        """
        return self._least(function(GRID))

    def greatest(self, function: Callable[[Floats], Floats]) -> float:
        """Return the greatest expectation, as `least`."""
        return -self._least(-function(GRID))

    def _least(self, value: Floats) -> float:
        seen, likelihood = self._likelihoods
        groups = self.counts[seen] / self.counts.sum()
        start = self.best.weights
        floor = float(groups @ np.log(likelihood @ start)) - self.drop / float(self.counts.sum())
        for _ in range(_MOST_CUTS):
            end, reached = _solve(value, self._cuts)
            way = end - start

            def above(length: float, way: Floats = way) -> float:
                inside = np.maximum(likelihood @ (start + length * way), 1e-300)
                return float(groups @ np.log(inside)) - floor

            if above(1.0) >= 0:
                return reached
            edge = start + float(brentq(above, 0.0, 1.0, xtol=1e-12)) * way
            if float(value @ edge) - reached < _GAP:
                return reached
            # Every member w of the region has score · (w − edge) ≥ 0, and score · edge is 1.
            self._cuts.append((groups / (likelihood @ edge)) @ likelihood)
        return reached

    @functools.cached_property
    def _likelihoods(self) -> tuple[NDArray[np.intp], Floats]:
        return likelihoods(self.counts)


def clustering(prompt: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """Return how much more the shares of the right counts vary than over independent groups; 1 if prompts never return.

    Σ over prompts of squared sums of residuals, over the sum of squared residuals.
    """
    counts, which = np.unique(right, return_inverse=True)
    residual = np.eye(len(counts))[which]
    residual -= residual.mean(0)
    _, cluster = np.unique(prompt, return_inverse=True)
    alone = float((residual**2).sum())
    if alone == 0:
        # All counts are the same; then whole prompts are, as far as can be seen.
        return len(prompt) / (int(cluster.max()) + 1)
    together = sum(float((np.bincount(cluster, weights=column) ** 2).sum()) for column in residual.T)
    return max(1.0, together / alone)


def _solve(value: Floats, cuts: list[Floats]) -> tuple[Floats, float]:
    solved = linprog(
        value,
        A_ub=-np.array(cuts) if cuts else None,
        b_ub=np.full(len(cuts), -1.0 + 1e-10) if cuts else None,
        A_eq=np.ones((1, len(GRID))),
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    if solved.status != 0:
        raise GrpodynError(f"no distribution of solve rates lies within the likelihood's bounds: {solved.message}")
    return np.asarray(solved.x, np.float64), float(solved.fun)
