"""Simulated GRPO groups: prompts whose solve rates come from a stated mixture, and how many completions are right.

Parameters are drawn from the ranges in `RANGES`; the shapes are those that public solve counts show: many prompts that
are never solved, some that always are, the rest spread out or at a few levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RANGES = {
    "never": (0.0, 0.7),
    "always": (0.0, 0.3),
    "atoms": (1, 4),
    "beta": (0.3, 3.0),
    "prompts": (40, 400),
    "visits": (1, 4),
}
"""Share of prompts never solved and always solved; levels (or both parameters of a beta) of the others; prompts of a
run and how often each comes back."""


@dataclass(frozen=True)
class Mixture:
    """A mixing distribution over solve rates: atoms, and one beta distribution."""

    rates: tuple[float, ...]
    weights: tuple[float, ...]
    """Of the atoms; what is missing to 1 belongs to the beta distribution."""
    beta: tuple[float, float] = (1.0, 1.0)

    def draw(self, rng: np.random.Generator, prompts: int) -> NDArray[np.float64]:
        """Return a solve rate per prompt."""
        rest = max(0.0, 1.0 - sum(self.weights))
        parts = np.array([*self.weights, rest])
        which = rng.choice(len(parts), size=prompts, p=parts / parts.sum())
        return np.append(self.rates, np.nan)[which] if rest == 0 else self._with_beta(rng, which)

    def _with_beta(self, rng: np.random.Generator, which: NDArray[np.intp]) -> NDArray[np.float64]:
        rates = np.append(self.rates, 0.0)[which]
        spread = rng.beta(*self.beta, size=len(which))
        return np.where(which == len(self.rates), spread, rates)

    def dead(self, g: int) -> float:
        """Return the true share of groups of g in which all completions are right or all wrong."""
        return self.all_right(g) + self.all_wrong(g)

    def all_right(self, g: int) -> float:
        """Return E[p^g]."""
        a, b = self.beta
        spread = np.prod([(a + i) / (a + b + i) for i in range(g)])
        atoms = sum(w * p**g for w, p in zip(self.weights, self.rates, strict=True))
        return float(atoms + max(0.0, 1.0 - sum(self.weights)) * spread)

    def all_wrong(self, g: int) -> float:
        """Return E[(1 − p)^g]."""
        mirrored = Mixture(tuple(1 - p for p in self.rates), self.weights, self.beta[::-1])
        return mirrored.all_right(g)


SPIKE_AND_ZERO = Mixture(rates=(0.5, 0.0), weights=(0.36, 0.64))
"""A beta-binomial fitted to groups of it says .56 dead at 32, where .64 is true."""


@dataclass(frozen=True)
class SimulatedGroups:
    """Counts of one simulated run."""

    prompt: NDArray[np.int64]
    """(groups,)"""
    right: NDArray[np.int64]
    """(groups,): right completions out of `g`."""
    g: int

    def rewards(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return 0/1 rewards (groups, g) in random order within each group."""
        ordered = (np.arange(self.g) < self.right[:, None]).astype(np.float64)
        return rng.permuted(ordered, axis=1)


def random_mixture(rng: np.random.Generator) -> Mixture:
    """Return a mixture with parameters from `RANGES`."""
    never, always = rng.uniform(*RANGES["never"]), rng.uniform(*RANGES["always"])
    if rng.random() < 0.5:
        return Mixture((0.0, 1.0), (never, always), tuple(rng.uniform(*RANGES["beta"], size=2)))
    atoms = int(rng.integers(RANGES["atoms"][0], RANGES["atoms"][1] + 1))
    shares = rng.dirichlet(np.ones(atoms)) * (1 - never - always)
    weights = (never, always, *shares[:-1], 1 - never - always - shares[:-1].sum())
    return Mixture((0.0, 1.0, *rng.uniform(0.02, 0.98, size=atoms)), tuple(weights))


def simulate(
    rng: np.random.Generator, mixture: Mixture, *, prompts: int, visits: int = 1, g: int = 8
) -> SimulatedGroups:
    """Return groups of g for `prompts` prompts that each come `visits` times, at a solve rate that stays."""
    rates = np.repeat(mixture.draw(rng, prompts), visits)
    return SimulatedGroups(np.repeat(np.arange(prompts), visits), rng.binomial(g, rates), g)


def random_run(rng: np.random.Generator, g: int = 8) -> tuple[Mixture, SimulatedGroups]:
    """Return a random mixture and a run of it."""
    mixture = random_mixture(rng)
    prompts, visits = int(rng.integers(*RANGES["prompts"])), int(rng.integers(*RANGES["visits"]))
    return mixture, simulate(rng, mixture, prompts=prompts, visits=visits, g=g)
