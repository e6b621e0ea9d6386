"""How large a comparison of two arms must be to see a difference, and what a finished one could have seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.stats import norm

from grpodyn.arms.separation import CHANCE, LEVEL, detectable
from grpodyn.errors import UsageError

MOST = 1_000_000
"""Prompts, samples or seeds beyond it are not sought."""
_MOST_SEEDS = 1000


@dataclass(frozen=True)
class Noise:
    """What makes an accuracy vary, both arms together."""

    between: float
    """Variance of the solve rate over prompts, of one arm plus of the other."""
    within: float
    """Variance of a single sampled answer to a prompt, E p(1 − p), of one arm plus of the other."""
    seed: float | None
    """Standard deviation of the accuracy over training seeds, of one arm; None if it is not known."""


@dataclass(frozen=True)
class Design:
    """How a comparison of two arms is made."""

    prompts: int
    """The same for both arms."""
    samples: int | None
    """Sampled answers a prompt; None where the chance of the right answer is computed exactly."""
    seeds: int = 1
    """Trained runs an arm. With one, the test is about these two sets of weights and says nothing about others."""
    correlation: float = 0.0
    """Of the solve rates of a prompt in the two arms; 0 while nothing is known of it, which errs on the safe side."""


def noise_of_rates(base: float, difference: float, between: float, seed: float | None = None) -> Noise:
    """Return the noise of two given accuracies.

    Args:
        base: accuracy of the first arm.
        difference: accuracy of the second less that.
        between: share of an answer's variance p(1 − p) that lies between prompts, from 0 (all prompts alike) to 1 (each
            always right or always wrong).
        seed: standard deviation over seeds.

    Raises:
        UsageError: a rate or a share outside [0, 1].
    """
    for what, value in (("base", base), ("base + difference", base + difference), ("between", between)):
        if not 0 <= value <= 1:
            raise UsageError(f"{what} is {value:g}, expected a share between 0 and 1")
    whole = sum(p * (1 - p) for p in (base, base + difference))
    return Noise(between * whole, (1 - between) * whole, seed)


def standard_error(noise: Noise, design: Design) -> float:
    """Return the standard error of the difference of two arms' accuracies.

    √(2 s²/n + (B(1 − ρ) + W/(S n))/P): n seeds of spread s, P prompts of which both arms see the same, B between and W
    within prompts, S samples a prompt. An unknown spread of seeds counts as 0.
    """
    over_seeds = 0.0 if noise.seed is None else 2 * noise.seed**2 / design.seeds
    sampled = 0.0 if design.samples is None else noise.within / (design.samples * design.seeds)
    return math.sqrt(over_seeds + (noise.between * (1 - design.correlation) + sampled) / design.prompts)


def smallest_seen(noise: Noise, design: Design, level: float = LEVEL, chance: float = CHANCE) -> float:
    """Return the smallest true difference that the comparison shows with probability `chance`.

    By a t test over seeds (2n − 2 degrees of freedom) if there are several, else by a z test over prompts:
    (z_level + z_chance) standard errors.
    """
    error = standard_error(noise, design)
    if design.seeds > 1:
        return detectable(error, 2 * design.seeds - 2, level, chance)
    return error * float(norm.isf((1 - level) / 2) + norm.ppf(chance))


def prompts_needed(noise: Noise, design: Design, difference: float, level: float, chance: float) -> int | None:
    """Return the fewest prompts with which the difference is seen; None if no number of them is enough."""
    return _fewest(lambda n: smallest_seen(noise, replace(design, prompts=n), level, chance), difference, 1, MOST)


def samples_needed(noise: Noise, design: Design, difference: float, level: float, chance: float) -> int | None:
    """Return the fewest samples a prompt with which it is seen; None if no number of them is enough."""
    return _fewest(lambda n: smallest_seen(noise, replace(design, samples=n), level, chance), difference, 1, MOST)


def seeds_needed(noise: Noise, design: Design, difference: float, level: float, chance: float) -> int | None:
    """Return the fewest seeds an arm, at least two, with which it is seen; None if no number of them is enough."""
    return _fewest(lambda n: smallest_seen(noise, replace(design, seeds=n), level, chance), difference, 2, _MOST_SEEDS)


def _fewest(seen: Callable[[int], float], difference: float, least: int, most: int) -> int | None:
    """Return the smallest number from `least` to `most` at which `seen` has fallen to the difference."""
    wanted = abs(difference)
    if seen(most) > wanted:
        return None
    low, high = least - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        if seen(middle) <= wanted:
            high = middle
        else:
            low = middle
    return high
