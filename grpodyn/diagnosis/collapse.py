"""A quality that was there and is lost: what several rules ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.series import Series, rise

LOST = 0.5
"""Share of the best level over the lowest possible that must be gone."""
SURE = 5.0


@dataclass(frozen=True)
class Collapse:
    """When a level was lost, and how much of it."""

    onset: int
    best: float
    end: float
    evidence: tuple[str, ...]


def collapse_of(seen: Observations) -> Collapse | None:
    """Return the collapse of the reward, or of held-out accuracy; None if there is none."""
    return _of_held_out(seen) or _of_reward(seen)


def _of_reward(seen: Observations) -> Collapse | None:
    reward = seen.reward
    if len(reward) < 10:
        return None
    width = max(5, len(reward) // 10)
    smooth = reward.smooth
    # The best level of whole windows: the first rows of a trailing mean hold too few.
    peak = int(np.argmax(smooth[min(width, len(smooth) - 1) - 1 :])) + min(width, len(smooth) - 1) - 1
    best, last = reward.rows(slice(max(0, peak - width + 1), peak + 1)), reward.last
    low, _ = seen.reward_range
    fall, sure = rise(best, last)
    if sure > -SURE or -fall < LOST * (best.level.mean - low) or best.level.mean - low < 0.02:
        return None
    # The best of many windows lies over its own level by chance: the fall must exceed what windows differ by.
    if -fall < 4 * _between_windows(reward, width):
        return None
    onset = reward.since(smooth < low + (1 - LOST) * (best.level.mean - low))
    if onset is None:
        return None
    sentence = (
        f"the reward fell from {best.level.mean:.3g} around step {int(reward.steps[peak])} to {last.level.mean:.3g} "
        f"({-sure:.0f} standard errors)"
    )
    return Collapse(onset, best.level.mean, last.level.mean, (sentence,))


def _between_windows(reward: Series, width: int) -> float:
    """Return the noise of a window's mean, from neighbouring rows: a trend hardly touches it."""
    differences = np.diff(reward.values)
    scale = 1.4826 * float(np.median(np.abs(differences - np.median(differences)))) / np.sqrt(2)
    return float(scale / np.sqrt(width))


def _of_held_out(seen: Observations) -> Collapse | None:
    if seen.held_out is None:
        return None
    name, series = seen.held_out
    if len(series) < 3 or float(series.values.min()) < 0:
        return None
    peak = int(np.argmax(series.values))
    best, end = float(series.values[peak]), float(np.max(series.values[-2:]))
    if peak >= len(series) - 2 or best < 0.03 or end > (1 - LOST) * best:
        return None
    below = np.flatnonzero(series.values > (1 - LOST) * best)
    onset = int(series.steps[below[-1] + 1])
    return Collapse(
        onset, best, end, (f"held out, {name} fell from {best:.3g} at step {int(series.steps[peak])} to {end:.2g}",)
    )
