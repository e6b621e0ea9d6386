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
        UsageError: a difference that no two accuracies have, or a design, a spread or a risk that makes no sense.
    """
    _check(noise, design, difference)
    if not (0 < level < 1 and 0 < chance < 1):
        raise UsageError(f"level {level:g} and chance {chance:g} are probabilities between 0 and 1")
    if chance <= (1 - level) / 2:
        raise UsageError(
            f"a chance of {chance:g} is that of a false alarm at level {level:g}: any comparison has it; give a larger "
            "one, such as 0.8"
        )
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


def _check(noise: Noise, design: Design, difference: float) -> None:
    if difference == 0 or math.isnan(difference):
        raise UsageError(f"a difference of {difference:g} needs no comparison; give the smallest that matters")
    if abs(difference) >= 1:
        raise UsageError(
            f"a difference of {difference:g} is none of accuracies: give a share, such as 0.05 for 5 points"
        )
    for what, count in (("prompts", design.prompts), ("samples", design.samples), ("seeds", design.seeds)):
        if count is not None and count < 1:
            raise UsageError(f"{what} is {count}, expected at least 1")
    if not -1 <= design.correlation <= 1:
        raise UsageError(f"a correlation is {design.correlation:g}, expected a number from -1 to 1")
    if noise.seed is not None and not 0 <= noise.seed < 1:
        raise UsageError(f"the spread of seeds is {noise.seed:g}, expected a share from 0 up to 1, such as 0.02")
