"""A comparison of two arms as planned or made: what it can see, and what seeing a difference would take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grpodyn.arms.planning import (
    Design,
    Noise,
    prompts_needed,
    samples_needed,
    seeds_needed,
    smallest_seen,
    standard_error,
)
from grpodyn.arms.separation import CHANCE, LEVEL
from grpodyn.errors import UsageError


@dataclass(frozen=True)
class Power:
    """What a comparison of two arms needs, and what the one at hand could have seen; accuracies are shares."""

    difference: float
    level: float
    """1 − α of the two-sided test."""
    chance: float
    """With which the difference is to be seen."""
    noise: Noise
    design: Design
    standard_error: float
    """Of the difference of the two arms, in this design."""
    smallest_seen: float
    """Smallest difference that this design sees with that chance."""
    prompts_needed: int | None
    """With the design's samples and seeds; None if no number is enough."""
    samples_needed: int | None
    seeds_needed: int | None
    basis: tuple[str, ...]
    """Where the noise comes from, one sentence each."""


def plan(
    noise: Noise,
    design: Design,
    difference: float,
    basis: Sequence[str],
    level: float = LEVEL,
    chance: float = CHANCE,
) -> Power:
    """Return what a comparison needs to see a difference.

    Raises:
        UsageError: a difference of 0, or a design or a risk that makes no sense.
    """
    if difference == 0 or not math.isfinite(difference):
        raise UsageError(f"a difference of {difference:g} needs no comparison; give the smallest that matters")
    if design.prompts < 1 or design.seeds < 1 or (design.samples is not None and design.samples < 1):
        raise UsageError(f"{design}: expected at least one prompt, sample and seed")
    if not (0 < level < 1 and 0 < chance < 1):
        raise UsageError(f"level {level:g} and chance {chance:g} are probabilities between 0 and 1")
    asked = (noise, design, difference, level, chance)
    return Power(
        difference=difference,
        level=level,
        chance=chance,
        noise=noise,
        design=design,
        standard_error=standard_error(noise, design),
        smallest_seen=smallest_seen(noise, design, level, chance),
        prompts_needed=prompts_needed(*asked),
        samples_needed=None if design.samples is None else samples_needed(*asked),
        seeds_needed=None if noise.seed is None else seeds_needed(*asked),
        basis=tuple(basis),
    )
