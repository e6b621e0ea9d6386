"""Signs that a reward which stands still is held up by a fault, not by having learned what there is to learn.

Five signs, after the four diagnostics of arXiv 2606.30789 and the truncation limit of arXiv 2510.13786. Groups without
spread and low entropy are what a solved task looks like too, so they count only where the reward is not near its top;
where that is unknown they count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from grpodyn.series import RewardSeries
from grpodyn.series.columns import evaluation, logged
from grpodyn.series.from_run import REWARD

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

DEAD_GROUPS = 0.5
"""Share of groups without spread, of the last rows, that is too much if it has risen."""
ENTROPY_LEFT = 0.1
"""Share of the first rows' entropy that is a collapse."""
TRUNCATED = 0.1
"""Share of completions cut off that destabilises training."""
KL_SPIKE = 10.0
"""A KL of so many times its median over the run is a spike."""
GAP_WIDENS = 0.1
"""Training reward's gain over the held-out metric's, in units of both, that tells them apart."""
NEAR_TOP = 0.9
_ROUNDING = 1e-6
"""Rewards of float32 exceed their top by so little."""
_TAIL = 0.2
_LEAST_TAIL = 5


class Log(Protocol):
    """What was logged, by name."""

    def values(self, name: str) -> Floats:
        """Return the finite values of a metric, in order; empty if it was not logged."""
        ...

    def held_out(self) -> tuple[NDArray[np.int64], Floats] | None:
        """Return steps and values of held-out accuracy, if it was measured."""
        ...

    def weights(self) -> Mapping[str, float]:
        """Return the weight of each reward function in the reward; empty if they are not known."""
        ...


class RunLog:
    """The log of an opened run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def values(self, name: str) -> Floats:
        """Return the finite values of a metric, in order; empty if it was not logged."""
        column = logged(self._run, name)
        return np.empty(0) if column is None else column[1][np.isfinite(column[1])]

    def held_out(self) -> tuple[NDArray[np.int64], Floats] | None:
        """Return steps and values of held-out accuracy, if it was measured."""
        column = evaluation(self._run, "heldout/accuracy")
        if column is None:
            return None
        known = np.isfinite(column[1])
        return column[0][known], column[1][known]

    def weights(self) -> Mapping[str, float]:
        """Return the weight of each reward function in the reward; empty if they are not known."""
        rewards = self._run.manifest.rewards
        named = [one for one in rewards if isinstance(one, Mapping)] if isinstance(rewards, list) else []
        return {
            str(one["name"]): float(weight)
            for one in named
            if "name" in one and isinstance(weight := one.get("weight", 1.0), int | float)
        }


WATCHED = ("frac_reward_zero_std", "entropy", "completions/clipped_ratio", "kl")
"""Metrics that the signs are read from."""


def fault_flags(log: Log, series: RewardSeries) -> tuple[str, ...]:
    """Return the signs of a fault at the end of a run, one sentence each, with the figures."""
    solved = _solved(log, series)
    signs: tuple[Callable[[], str], ...] = (
        lambda: "" if solved else _dead_groups(log.values("frac_reward_zero_std")),
        lambda: "" if solved else _entropy(log.values("entropy")),
        lambda: _truncated(log.values("completions/clipped_ratio")),
        lambda: _gap(log, series),
        lambda: _kl(log.values("kl")),
    )
    return tuple(said for sign in signs if (said := sign()))


def _solved(log: Log, series: RewardSeries) -> bool:
    """Return whether the reward is near its top, as far as the top is known."""
    if not len(series):
        return False
    top = series.bounds[1] if series.bounds is not None else _likely_top(log, series)
    return top is not None and float(np.mean(series.value[-_tail(len(series)) :])) >= NEAR_TOP * top


def _likely_top(log: Log, series: RewardSeries) -> float | None:
    """Return the top if no function gives more than it is known to, or than 1; None where the values exceed that."""
    weights = log.weights() if series.metric == REWARD else {}
    top = greatest(weights) if weights else 1.0
    return top if float(np.max(series.value)) <= top * (1 + _ROUNDING) else None


def greatest(weights: Mapping[str, float]) -> float:
    """Return the greatest sum of reward functions, by name, that give at most 1 unless they are known otherwise.

    >>> greatest({"exact_match": 3.0}), greatest({"mine": 1.0, "soft_overlong": 0.5})
    (3.0, 1.0)
    """
    highs: Mapping[str, float] = {}
    if len(weights) > 1:
        # Half a second of imports, which one reward does not need.
        from grpodyn.rewards.known import KNOWN  # noqa: PLC0415

        highs = {name: one.high for name, one in KNOWN.items()}
    return sum(weight * highs.get(name, 1.0) for name, weight in weights.items() if weight > 0)


def _tail(rows: int) -> int:
    return max(_LEAST_TAIL, round(_TAIL * rows))


def _ends(values: Floats) -> tuple[float, float] | None:
    """Return the means of the first and of the last rows, or None if there are too few."""
    size = _tail(len(values))
    return (float(values[:size].mean()), float(values[-size:].mean())) if len(values) >= 2 * size else None


def _dead_groups(values: Floats) -> str:
    ends = _ends(values)
    if ends is None or ends[1] < DEAD_GROUPS or ends[1] < ends[0] + 0.1:
        return ""
    return f"groups without spread in reward rose from {ends[0]:.0%} to {ends[1]:.0%}: they teach nothing"


def _entropy(values: Floats) -> str:
    ends = _ends(values)
    if ends is None or ends[1] > ENTROPY_LEFT * ends[0]:
        return ""
    return f"entropy fell from {ends[0]:.3g} to {ends[1]:.3g}: hardly anything new is tried"


def _truncated(values: Floats) -> str:
    share = float(values[-_tail(len(values)) :].mean()) if len(values) else 0.0
    return f"{share:.0%} of completions are cut off at the length limit" if share > TRUNCATED else ""


def _gap(log: Log, series: RewardSeries) -> str:
    """Return whether training reward rose over the last half while held-out accuracy fell behind."""
    tested_at = log.held_out()
    if tested_at is None or series.bounds != (0.0, 1.0) or series.metric.startswith("heldout"):
        return ""
    step, held_out = tested_at
    middle = int(series.step[len(series) // 2]) if len(series) else 0
    late = step >= middle
    if late.sum() < 2:
        return ""
    half = series.value[series.step >= middle]
    ends = _ends(half)
    if ends is None:
        return ""
    trained, tested = ends[1] - ends[0], float(held_out[late][-1] - held_out[late][0])
    if trained - tested < GAP_WIDENS:
        return ""
    return f"over the last half training reward moved by {trained:+.3f}, held-out accuracy by {tested:+.3f}"


def _kl(values: Floats) -> str:
    if len(values) < 4 * _LEAST_TAIL:
        return ""
    late, usual = float(values[-_tail(len(values)) :].max()), float(np.median(values))
    return (
        f"KL reached {late:.3g}, {late / usual:.0f} times its median" if usual > 0 and late > KL_SPIKE * usual else ""
    )
