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
    """Statistics per generation batch, over the groups of which every completion has a reward."""

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
    """Return the statistics of rollouts, or None if most batches hold no group whose completions all have a reward.

    Args:
        steps: per batch.
        total: (row, prompt, generation).
        rewards: (row, prompt, generation, part); None if only the total is known.
        lengths: (row, prompt, generation), tokens.
        parts: names of the reward functions.
    """
    if not total.size or total.shape[2] < 2:
        return None
    scored: NDArray[np.bool_] = np.isfinite(total)
    whole: NDArray[np.bool_] = np.asarray(scored.all(axis=2))
    held: NDArray[np.bool_] = np.asarray(whole.any(axis=1))
    # What a few batches hold is no picture of all of them, least of all of the end.
    if not held.any() or 2 * held.sum() < scored.any(axis=(1, 2)).sum():
        return None
    steps, whole = steps[held], whole[held]
    total = np.where(whole[:, :, None], total[held], np.nan)
    lowest, highest = float(np.nanmin(total)), float(np.nanmax(total))
    slack = TOLERANCE + 0.01 * (highest - lowest)
    # Nan in a group that is not whole: it is neither dead nor alive.
    spread = np.ptp(total, axis=2)
    dead = spread <= TOLERANCE
    middle = total[:, :, 0]
    # One value throughout: 0 is wrong, a full 1 may be right, anything else is neither.
    constant = highest - lowest <= TOLERANCE
    low = dead & ((middle <= lowest + slack) if not constant else np.full(dead.shape, highest <= TOLERANCE))
    high = dead & ((middle >= highest - slack) if not constant else np.full(dead.shape, abs(highest - 1) <= TOLERANCE))
    per_part = None
    if rewards is not None and rewards.shape[-1] > 0:
        per_part = np.where(whole[:, :, None, None], rewards[held], np.nan)
    right = _right(total, per_part, parts, lowest, highest)
    of_whole = None if lengths is None else np.where(whole[:, :, None], lengths[held], np.nan)
    of_right, of_wrong = _lengths(steps, of_whole, right)

    def share(which: NDArray[np.bool_]) -> Series:
        return Series(steps, which.sum(axis=1) / whole.sum(axis=1))

    return Groups(
        size=total.shape[2],
        prompts=total.shape[1],
        reward=Series(steps, np.nanmean(total, axis=(1, 2))),
        dead=share(dead),
        dead_low=share(low),
        dead_high=share(high),
        lowest=lowest,
        highest=highest,
        length_right=of_right,
        length_wrong=of_wrong,
        within=_within(None if per_part is None else per_part[whole]),
        parts=parts,
        values=_bounds(per_part),
    )


def _right(
    total: Floats, rewards: Floats | None, parts: tuple[str, ...], lowest: float, highest: float
) -> NDArray[np.bool_]:
    named = [i for i, name in enumerate(parts) if _TASK.search(name)]
    if rewards is not None and len(named) == 1:
        values = rewards[..., named[0]]
        if np.isfinite(values).any():
            return np.asarray(values > (np.nanmin(values) + np.nanmax(values)) / 2)
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
    """Return the covariance of the parts of `rewards` (group, generation, part) about each group's mean."""
    if rewards is None:
        return np.zeros((0, 0))
    known = np.isfinite(rewards)
    filled = np.where(known, rewards, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(1, known.sum(axis=1, keepdims=True))
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
