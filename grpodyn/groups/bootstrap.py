"""Intervals over prompts: what another draw of prompts from the same source would have shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import UsageError
from grpodyn.statistics import Interval

Floats = NDArray[np.float64]

REPLICATES = 2000


@dataclass(frozen=True)
class PromptBootstrap:
    """The Bayesian bootstrap over prompts, for means over groups of statistics between 0 and 1.

    All groups of a prompt stay together: they are not independent. Half an observation at 0 and half at 1 are added, as
    Jeffreys' prior does, so that a share of which none was seen still has an interval; if every statistic is 0 or 1 and
    each prompt comes once, the interval is Jeffreys' own, Beta(k + ½, n − k + ½).

    Reference:
        Rubin, Annals of Statistics 9 (1981) 130; Brown, Cai and DasGupta, Statistical Science 16 (2001) 101.
    """

    weights: Floats
    """(replicates, prompts + 2): Dirichlet weights, those of the half observations last."""
    cluster: NDArray[np.intp]
    """(groups,): index of each group's prompt."""
    sizes: Floats
    """(prompts,): groups of each prompt."""

    @classmethod
    def over(cls, prompt: NDArray[np.int64], seed: int = 0, replicates: int = REPLICATES) -> PromptBootstrap:
        """Return the bootstrap for groups of the prompts `prompt`, (groups,).

        Raises:
            UsageError: there is no group.
        """
        if not len(prompt):
            raise UsageError("no groups to resample; expected at least one")
        _, cluster, sizes = np.unique(prompt, return_inverse=True, return_counts=True)
        shape = np.append(np.ones(len(sizes)), [0.5, 0.5])
        weights = np.random.default_rng(seed).standard_gamma(shape, size=(replicates, len(shape)))
        return cls(weights, cluster, sizes.astype(np.float64))

    def interval(self, values: Floats, level: float = 0.95) -> Interval:
        """Return the mean of `values`, (groups,), each between 0 and 1, and its equal-tailed interval."""
        size = self.sizes.mean()
        sums = np.append(np.bincount(self.cluster, weights=values), [0.0, size])
        replicates = self.weights @ sums / (self.weights @ np.append(self.sizes, [size, size]))
        low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
        mean = float(values.mean())
        return Interval(mean, min(float(low), mean), max(float(high), mean), level)
