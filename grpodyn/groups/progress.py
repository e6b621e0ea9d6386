"""What a run reached, what that took, and how steadily: the numbers by which group sizes are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import MissingDataError
from grpodyn.evaluation.records import ACCURACY, PASS_AT
from grpodyn.series import reward_series
from grpodyn.series.axes import positions
from grpodyn.series.columns import evaluation, logged
from grpodyn.series.series import AXES, Axis

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

SETTLED = 0.5
"""Stability is measured over this last share of the steps."""
LEVELS = 4
"""Bands of solve rate within which runs are matched."""


@dataclass(frozen=True)
class SolveRate:
    """How much of a fixed prompt set a run solved over its steps."""

    name: str
    """`heldout/accuracy`, or the training reward, which is of no fixed prompts."""
    fixed_prompts: bool
    step: Steps
    value: Floats


@dataclass(frozen=True)
class Progress:
    """One run, as a member of an arm."""

    path: str
    g: int
    solve_rate: SolveRate
    final: Mapping[str, float]
    """Shares at the last evaluation: `pass@1`, `pass@k`."""
    spent: Mapping[Axis, float]
    """By the end, per axis that the run can be measured along."""
    stability: Mapping[str, float]
    """`reward variance` around its own trend, `gradient norm`, `gradient variation` (its spread over its mean) over the
    last half of the steps; `coherence` (net displacement over path) of the whole run. Not recorded is missing."""
    _reward: tuple[Steps, Floats] = field(repr=False)
    _gradient: tuple[Steps, Floats] | None = field(repr=False)
    _run: Run = field(repr=False)

    def needed(self, level: float) -> dict[Axis, float]:
        """Return what was spent until the solve rate first reached `level`, per axis; inf where it never did."""
        step, value = self.solve_rate.step.astype(np.float64), self.solve_rate.value
        above = np.flatnonzero(value >= level)
        if not above.size:
            return dict.fromkeys(self.spent, math.inf)
        first = int(above[0])
        at = float(step[0])
        if first > 0:
            share = (level - value[first - 1]) / (value[first] - value[first - 1])
            at = float(step[first - 1] + share * (step[first] - step[first - 1]))
        return {axis: float(np.interp(at, *self._spending(axis))) for axis in self.spent}

    def matched(self, low: float, high: float) -> dict[str, float]:
        """Return reward variance and gradient norm over the steps at which the solve rate lay between two levels."""
        reward_step, reward = self._reward
        found = {"reward variance": _variance(*self._within(reward_step, reward, low, high))}
        if self._gradient is not None:
            _, norms = self._within(*self._gradient, low, high)
            found["gradient norm"] = float(norms.mean()) if norms.size else math.nan
        return found

    def _within(self, step: Steps, value: Floats, low: float, high: float) -> tuple[Steps, Floats]:
        rate = np.interp(step, self.solve_rate.step, self.solve_rate.value)
        kept = (rate >= low) & (rate < high)
        return step[kept], value[kept]

    def _spending(self, axis: Axis) -> tuple[Floats, Floats]:
        steps = np.arange(int(self.solve_rate.step.max()) + 1)
        return steps.astype(np.float64), positions(self._run, axis, steps)


def progress(run: Run, g: int) -> Progress:
    """Return a run's progress.

    Raises:
        MissingDataError: the run logged no reward.
    """
    series = reward_series(run)
    reward = (series.step, series.value)
    gradient = _finite(logged(run, "grad_norm"))
    return Progress(
        path=str(run.path),
        g=g,
        solve_rate=_solve_rate(run, reward),
        final=_final(run),
        spent=_spent(run),
        stability=_stability(run, reward, gradient),
        _reward=reward,
        _gradient=gradient,
        _run=run,
    )


def _solve_rate(run: Run, reward: tuple[Steps, Floats]) -> SolveRate:
    held_out = _finite(evaluation(run, ACCURACY))
    if held_out is not None and len(held_out[0]) >= 2:
        return SolveRate(ACCURACY, True, *held_out)
    # Smoothed over a tenth of the run: single batches would reach any level by luck.
    step, value = reward
    width = max(1, len(value) // 10)
    smooth = np.convolve(value, np.ones(width) / width, mode="valid")
    return SolveRate("reward", False, step[width - 1 :], smooth)


def _final(run: Run) -> dict[str, float]:
    held = {"pass@1": ACCURACY}
    if run.rows["evaluations"]:
        names = (str(name) for name in run.evaluations["metric"].values)
        held |= {name.removeprefix("heldout/"): name for name in names if name.startswith(PASS_AT)}
    found = {shown: _finite(evaluation(run, name)) for shown, name in held.items()}
    return {shown: float(column[1][-1]) for shown, column in found.items() if column is not None}


def _spent(run: Run) -> dict[Axis, float]:
    found: dict[Axis, float] = {}
    for axis in AXES:
        try:
            found[axis] = float(positions(run, axis, np.array([run.last_step]))[0])
        except MissingDataError:
            continue
    return found


def _stability(run: Run, reward: tuple[Steps, Floats], gradient: tuple[Steps, Floats] | None) -> dict[str, float]:
    start = run.last_step * (1 - SETTLED)
    found = {"reward variance": _variance(*_after(reward, start))}
    if gradient is not None:
        norms = _after(gradient, start)[1]
        if norms.size > 1:
            found |= {
                "gradient norm": float(norms.mean()),
                "gradient variation": float(norms.std(ddof=1) / norms.mean()) if norms.mean() > 0 else math.nan,
            }
    coherence = _coherence(run)
    return found if math.isnan(coherence) else found | {"coherence": coherence}


def _after(column: tuple[Steps, Floats], start: float) -> tuple[Steps, Floats]:
    kept = column[0] > start
    return column[0][kept], column[1][kept]


def _variance(step: Steps, value: Floats) -> float:
    """Variance around a slow trend: half the mean squared difference of neighbours (von Neumann)."""
    return float(np.mean(np.diff(value) ** 2) / 2) if len(step) > 2 else math.nan


def _coherence(run: Run) -> float:
    """Net displacement over path length of all weights as one vector; nan if not recorded."""
    if not run.rows["tensors"] or not {"update_norm", "delta_norm"} <= set(run.tensors):
        return math.nan
    # An adapter's factors do not count beside the effective update.
    own = run.tensors["source"].values != "factor"
    step = np.asarray(run.tensors["step"].values, np.int64)
    update, delta = (
        np.sqrt(np.nansum(np.asarray(run.tensors[probe].values, np.float64)[:, own] ** 2, axis=1))
        for probe in ("update_norm", "delta_norm")
    )
    moved, measured = update > 0, delta > 0
    if not moved.any() or not measured.any():
        return math.nan
    last = step[measured][-1]
    path = update[moved & (step <= last)]
    # Where not every step was recorded, each recorded one stands for as many as lie between.
    return float(delta[measured][-1] / (path.mean() * last))


def _finite(column: tuple[Steps, Floats] | None) -> tuple[Steps, Floats] | None:
    if column is None:
        return None
    kept = np.isfinite(column[1])
    return (column[0][kept], column[1][kept]) if kept.any() else None
