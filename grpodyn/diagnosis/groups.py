"""What the recorded rollouts say: spread within groups, lengths of right and wrong completions, parts against parts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.diagnosis.series import Floats, Series

TOLERANCE = 1e-6
"""Spread under which the completions of a group count as equal."""
_TASK = re.compile(r"correct|accura|exact|match|answer|solve|verif|equal|success|pass|task|math|result", re.I)


@dataclass(frozen=True)
class Groups:
    """Statistics per generation batch."""

    size: int
    prompts: int
    reward: Series
    dead: Series
    """Share of groups whose completions all have the same total reward."""
    dead_low: Series
    """The same, at the lowest reward of the run."""
    dead_high: Series
    """The same, at the highest."""
    lowest: float
    highest: float
    length_right: Series
    """Mean tokens of the completions that the task's reward counts as right, in batches with both kinds."""
    length_wrong: Series
    within: Floats
    """(part, part): covariance of the reward functions within groups, over the whole run."""
    parts: tuple[str, ...]
    values: Floats
    """(part, 2): lowest and highest value of each reward function."""


def groups_of(
    steps: NDArray[np.int64], total: Floats, rewards: Floats | None, lengths: Floats | None, parts: tuple[str, ...]
) -> Groups | None:
    """Return the statistics of rollouts, or None if no completion has a reward.

    Args:
        steps: per batch.
        total: (row, prompt, generation).
        rewards: (row, prompt, generation, part); None if only the total is known.
        lengths: (row, prompt, generation), tokens.
        parts: names of the reward functions.
    """
    held = np.isfinite(total).all(axis=(1, 2)) if total.size else np.zeros(0, bool)
    if not held.any() or total.shape[2] < 2:
        return None
    steps, total = steps[held], total[held]
    lowest, highest = float(total.min()), float(total.max())
    slack = TOLERANCE + 0.01 * (highest - lowest)
    spread = np.ptp(total, axis=2)
    dead = spread <= TOLERANCE
    middle = total[:, :, 0]
    # One value throughout: 0 is wrong, a full 1 may be right, anything else is neither.
    constant = highest - lowest <= TOLERANCE
    low = dead & ((middle <= lowest + slack) if not constant else np.full(dead.shape, highest <= TOLERANCE))
    high = dead & ((middle >= highest - slack) if not constant else np.full(dead.shape, abs(highest - 1) <= TOLERANCE))
    per_part = None if rewards is None or rewards.shape[-1] == 0 else rewards[held]
    right = _right(total, per_part, parts, lowest, highest)
    of_right, of_wrong = _lengths(steps, None if lengths is None else lengths[held], right)
    return Groups(
        size=total.shape[2],
        prompts=total.shape[1],
        reward=Series(steps, total.mean(axis=(1, 2))),
        dead=Series(steps, dead.mean(axis=1)),
        dead_low=Series(steps, low.mean(axis=1)),
        dead_high=Series(steps, high.mean(axis=1)),
        lowest=lowest,
        highest=highest,
        length_right=of_right,
        length_wrong=of_wrong,
        within=_within(per_part),
        parts=parts,
        values=_bounds(per_part),
    )


def _right(
    total: Floats, rewards: Floats | None, parts: tuple[str, ...], lowest: float, highest: float
) -> NDArray[np.bool_]:
    named = [i for i, name in enumerate(parts) if _TASK.search(name)]
    if rewards is not None and len(named) == 1:
        values = np.nan_to_num(rewards[..., named[0]])
        return np.asarray(values > (values.min() + values.max()) / 2)
    return np.asarray(total > (lowest + highest) / 2)


def _lengths(steps: NDArray[np.int64], lengths: Floats | None, right: NDArray[np.bool_]) -> tuple[Series, Series]:
    nothing = Series(steps[:0], np.array([], dtype=np.float64))
    if lengths is None or not np.isfinite(lengths).any():
        return nothing, nothing
    known = np.isfinite(lengths)
    yes, no = right & known, ~right & known
    # A mean over one or two completions is no length of anything.
    both = (yes.sum(axis=(1, 2)) >= 3) & (no.sum(axis=(1, 2)) >= 3)
    if not both.any():
        return nothing, nothing
    filled = np.where(known, lengths, 0.0)
    means = [(filled * which).sum(axis=(1, 2))[both] / which.sum(axis=(1, 2))[both] for which in (yes, no)]
    return Series(steps[both], means[0]), Series(steps[both], means[1])


def _within(rewards: Floats | None) -> Floats:
    if rewards is None:
        return np.zeros((0, 0))
    known = np.isfinite(rewards)
    filled = np.where(known, rewards, 0.0)
    mean = filled.sum(axis=2, keepdims=True) / np.maximum(1, known.sum(axis=2, keepdims=True))
    flat = np.where(known, filled - mean, 0.0).reshape(-1, rewards.shape[-1])
    return np.asarray(flat.T @ flat / max(1, len(flat)))


def _bounds(rewards: Floats | None) -> Floats:
    if rewards is None:
        return np.zeros((0, 2))
    flat = rewards.reshape(-1, rewards.shape[-1])
    found = np.full((rewards.shape[-1], 2), np.nan)
    for i in range(rewards.shape[-1]):
        finite = flat[np.isfinite(flat[:, i]), i]
        if finite.size:
            found[i] = finite.min(), finite.max()
    return found
