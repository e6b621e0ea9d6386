"""When a stage of a curriculum is mastered, has stalled, or cannot be learned from: rules on numbers alone, no torch.

The default numbers are those of a public post's code: accuracy of at least .85 at three tests in a row, a stall after
six tests without a new best, and before training a mean reward above .05 and fewer than 70 % of groups alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from grpodyn.config.stages import CurriculumConfig

Outcome = Literal["mastered", "stalled", "not_viable"]
"""How a stage ends."""


@dataclass(frozen=True)
class Viability:
    """What GRPO finds to learn from in a stage, before it is trained."""

    reward: float
    """Expected accuracy of a sample."""
    alike: float
    """Expected share of groups whose completions are all right or all wrong: their advantages are zero."""


def viability(chances: NDArray[np.float64], group_size: int) -> Viability:
    """Return what groups of samples are expected to hold.

    alike = mean over prompts of p^G + (1 − p)^G.

    Args:
        chances: (prompts,): the chance p that a sample answers a prompt rightly, at the temperature of training.
        group_size: G, completions of a prompt.

    >>> viability(np.array([0.5, 0.1]), 4)
    Viability(reward=0.3, alike=0.3906)
    """
    alike = chances**group_size + (1 - chances) ** group_size
    return Viability(float(chances.mean()), round(float(alike.mean()), 12))


def not_viable(rule: CurriculumConfig, found: Viability) -> str | None:
    """Return why a stage cannot be learned from, or None if it can."""
    if found.reward < rule.least_reward:
        return f"its samples are right in {found.reward:.3f} of cases, less than {rule.least_reward:g}"
    if found.alike > rule.most_alike:
        return f"{found.alike:.3f} of its groups are all right or all wrong, more than {rule.most_alike:g}"
    return None


def judge(rule: CurriculumConfig, tests: Sequence[float]) -> Outcome | None:
    """Return how the tests of a stage end it, or None if it goes on.

    Args:
        rule: the curriculum.
        tests: accuracy at each test since the stage began, in order; the one before its first step is not among them.
    """
    if len(tests) >= rule.in_a_row and all(value >= rule.level for value in tests[-rule.in_a_row :]):
        return "mastered"
    best, since = -math.inf, 0
    for value in tests:
        best, since = (value, 0) if value > best else (best, since + 1)
    # At the level, a stage waits for the tests that confirm it: a best that cannot be bettered is no stall.
    return "stalled" if since >= rule.patience and tests[-1] < rule.level else None
