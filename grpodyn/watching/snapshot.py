"""What can be told of a run at one moment, as a live view shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.diagnosis.finding import Finding
from grpodyn.forecasting.curves import Curve
from grpodyn.series.columns import logged
from grpodyn.series.from_run import planned_steps

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

_MATRICES = ("linear", "expert")
_MOVERS = 5
_LAST_ROWS = 16
"""Rows of tensors that "now" is the mean of: several, because probes of a slower cadence fill few of them."""
_LAST_LOGS = 20


@dataclass(frozen=True)
class Fit:
    """The reward as it went and as it is expected to go on, as of `step`."""

    step: int
    metric: str
    steps: tuple[float, ...]
    rewards: tuple[float, ...]
    curve: Curve | None
    ahead: Curve | None
    verdict: str
    why: tuple[str, ...]
    final: tuple[float, float, float] | None
    """Expected end, and its 80 % interval."""
    plateau_step: float | None
    """Where nine tenths of the rise are done; None where the curve does not show it."""
    stop_step: int | None


@dataclass(frozen=True)
class Mover:
    """A weight matrix and how it moves now."""

    tensor: str
    update_ratio: float
    """‖W_t − W_{t−1}‖_F / ‖W‖_F, mean over the last rows."""
    delta_norm: float
    """‖W_t − W_0‖_F, last value; nan where it is not recorded."""


@dataclass(frozen=True)
class GroupShares:
    """What became of the groups of the last generation batches; shares, nan where nothing tells right from wrong."""

    g: int
    groups: int
    all_right: float
    mixed: float
    all_wrong: float
    dead: float
    """Groups without spread in their reward: they teach nothing."""


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment."""

    path: str
    run_id: str
    status: str
    step: int
    planned_steps: int | None
    seconds_a_step: float
    """Mean over the last logs; nan where it is not recorded."""
    latest: Mapping[str, float]
    """Last value of a few scalars of the trainer."""
    fit: Fit | None
    findings: tuple[Finding, ...]
    movers: tuple[Mover, ...]
    movers_step: int
    groups: GroupShares | None
    recorder_seconds: float
    recorder_share: float
    """CPU seconds of the recorder over the wall seconds of the steps; nan where unknown."""
    problems: tuple[str, ...]

    @property
    def seconds_left(self) -> float:
        """Until the planned end at the present speed; nan where that is unknown."""
        if self.planned_steps is None or self.status != "running":
            return math.nan
        return max(0, self.planned_steps - self.step) * self.seconds_a_step


_SHOWN = (
    "reward",
    "entropy",
    "kl",
    "completions/mean_length",
    "completions/clipped_ratio",
    "learning_rate",
    "grad_norm",
)


def take(run: Run, fit: Fit | None, findings: tuple[Finding, ...], groups: GroupShares | None) -> Snapshot:
    """Return what can be told of a run; the parts that take thought are handed in."""
    movers_step, movers = _movers(run) if run.rows["tensors"] else (-1, ())
    recorder, steps = _total(run, "recorder_seconds"), _total(run, "step_seconds")
    return Snapshot(
        path=str(run.path),
        run_id=run.manifest.run_id,
        status=run.status,
        step=run.last_step,
        planned_steps=planned_steps(run),
        seconds_a_step=_seconds_a_step(run),
        latest=_latest(run),
        fit=fit,
        findings=findings,
        movers=movers,
        movers_step=movers_step,
        groups=groups,
        recorder_seconds=recorder,
        recorder_share=recorder / steps if steps > 0 else math.nan,
        problems=tuple(run.problems),
    )


def _total(run: Run, name: str) -> float:
    column = logged(run, name)
    known = np.isfinite(column[1]) if column is not None else np.zeros(0, bool)
    return float(column[1][known].sum()) if column is not None and known.any() else math.nan


def _latest(run: Run) -> dict[str, float]:
    found = {}
    for name in _SHOWN:
        column = logged(run, name)
        if column is not None:
            finite = column[1][np.isfinite(column[1])]
            if finite.size:
                found[name] = float(finite[-1])
    return found


def _seconds_a_step(run: Run) -> float:
    column = logged(run, "step_seconds")
    if column is None:
        return math.nan
    steps, seconds = column[0][-_LAST_LOGS:], column[1][-_LAST_LOGS:]
    # Of a row, the seconds are those since the row before it.
    held = np.isfinite(seconds)
    span = float(steps[-1] - steps[0]) + _first_span(column[0])
    return float(seconds[held].sum()) / span if held.any() and span > 0 else math.nan


def _first_span(steps: NDArray[np.int64]) -> float:
    before = steps[:-_LAST_LOGS]
    return float(steps[len(before)] - before[-1]) if len(before) else float(steps[0])


def _movers(run: Run) -> tuple[int, tuple[Mover, ...]]:
    """Return the step and the matrices that move most for their size; of each probe the last chunks alone are read."""
    tensors: xr.Dataset = run.tensors
    probe = next((name for name in ("update_ratio", "update_norm", "delta_norm") if name in tensors), None)
    if probe is None:
        return -1, ()
    last = tensors.isel(row=slice(-_LAST_ROWS, None))
    wanted = np.isin(tensors["kind"].values.astype(str), _MATRICES) & (tensors["source"].values != "factor")
    places = np.flatnonzero(wanted if wanted.any() else np.ones(len(wanted), bool))
    values = _floats(last, probe)[:, places]
    now = _mean(values)
    delta = _last(_floats(last, "delta_norm")[:, places]) if "delta_norm" in tensors else np.full(len(places), math.nan)
    order = [
        int(i) for i in np.argsort(-np.nan_to_num(now, nan=-1.0), kind="stable")[:_MOVERS] if math.isfinite(now[i])
    ]
    names = tensors["tensor"].values
    found = tuple(
        Mover(str(names[places[i]]), float(now[i]) if probe == "update_ratio" else math.nan, float(delta[i]))
        for i in order
    )
    return int(last["step"].values[-1]), found


def _floats(data: xr.Dataset, name: str) -> NDArray[np.float64]:
    return np.asarray(data[name].values, np.float64)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.isfinite(values)
    total, count = np.where(finite, values, 0.0).sum(axis=0), finite.sum(axis=0)
    result: NDArray[np.float64] = np.divide(total, count, out=np.full(total.shape, math.nan), where=count > 0)
    return result


def _last(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.isfinite(values)
    row = len(values) - 1 - finite[::-1].argmax(axis=0)
    return np.asarray(np.where(finite.any(axis=0), values[row, np.arange(values.shape[1])], math.nan))


def shares_of(result: Any, batches: int = 20) -> GroupShares:
    """Return the shares over the last parts of `GroupOutcomes`, weighted by their groups."""
    counts = np.asarray(result.groups, np.float64)
    # Parts of a long run hold many batches: one of them may be all that is wanted.
    first = max(0, len(counts) - max(1, min(batches, math.ceil(len(counts) / 10))))
    weights = counts[first:] / counts[first:].sum()

    def mean(values: tuple[float, ...]) -> float:
        return float(np.asarray(values[first:], np.float64) @ weights)

    return GroupShares(
        g=result.g,
        groups=int(counts[first:].sum()),
        all_right=mean(result.all_right),
        mixed=mean(result.mixed),
        all_wrong=mean(result.all_wrong),
        dead=mean(result.dead),
    )
