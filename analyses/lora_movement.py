"""What moved in a run: net displacement, path length, coherence and gradient energy, by layer and by module type.

These are four different statistics, they disagree, and none is a contribution to the reward.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from grpodyn.analysis import Analysis
from grpodyn.errors import MissingDataError
from grpodyn.lora.findings import GroupMovement, Movement, Ranged, RankFindings, Spread, Statistic
from grpodyn.lora.spread import gini, max_over_min, top_share
from grpodyn.lora.tables import Floats, Series, Tables, from_saved_weights, read

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

MIN_RECORDED_STEPS = 4
"""Fewer recorded updates than this make no statement about a run."""
WINDOWS = 4


class LoraMovement(Analysis):
    """What moved in a run, by layer and module type."""

    name: ClassVar[str] = "lora_movement"
    title: ClassVar[str] = "What moved, by layer and module type: displacement, path, coherence, gradient, ranks"
    requires: ClassVar[tuple[str, ...]] = ("update_norm", "delta_norm")
    reference: ClassVar[str] = "Spread statistics: arXiv 2605.07366. Effective rank: Roy & Vetterli 2007."

    def run(self, run: Run, **options: Any) -> Movement:
        """Return the `Movement` of a run.

        Raises:
            MissingDataError: the run lacks `update_norm` or `delta_norm`, or holds fewer than four recorded steps.
        """
        run.require(*(("delta_norm",) if from_saved_weights(run) else self.requires))
        return _movement(run)


def _movement(run: Run) -> Movement:
    tables = read(run)
    steps = tables.update.steps
    saved = from_saved_weights(run)
    if steps.size < MIN_RECORDED_STEPS and not saved:
        raise MissingDataError(
            f"{run.path}: {steps.size} recorded steps (status {run.status}, last step {run.last_step}); advice needs "
            f"at least {MIN_RECORDED_STEPS}. Let the run go on, or record more often (`record.every: "
            "{update_norm: 1}`)"
        )
    edges = _windows(tables)
    if edges is None:
        tables.notes.append("too few rows of delta_norm for windows: the spread statistics have no range")
    stride = 1 if saved else int(np.median(np.diff(steps)))
    layers, modules = _grouping(tables, tables.layer), _grouping(tables, tables.module)
    return Movement(
        run_id=str(run.manifest.run_id),
        status=run.status,
        lora=tables.lora,
        first_step=int(steps[0]),
        last_step=int(run.last_step),
        recorded_steps=int(steps.size),
        stride=stride,
        windows=0 if edges is None else len(edges) - 1,
        tensors=len(tables.layer),
        dtypes=tables.dtypes,
        outside_share=tables.outside_share,
        layers=_groups(tables, layers),
        modules=_groups(tables, modules),
        spreads=(*_spreads(tables, layers, "layer", edges), *_spreads(tables, modules, "module", edges)),
        ranks=_ranks(tables),
        notes=tuple(tables.notes),
    )


def _windows(tables: Tables) -> Floats | None:
    """Edges of up to four windows of equal length that each hold a row of every series, or None."""
    first, last = int(tables.update.steps[0]), int(max(tables.update.steps[-1], tables.delta.steps[-1]))
    kept = [s for s in (tables.update, tables.delta, tables.gradient) if s is not None]
    for count in range(WINDOWS, 1, -1):
        edges = np.linspace(first - 1, last, count + 1)
        if all(np.histogram(series.steps, bins=edges + 1e-9)[0].all() for series in kept):
            return edges
    return None


@dataclass(frozen=True)
class _Grouping:
    """Tensors sorted into layers or module types, and the squares of each group's rows."""

    names: list[str]
    ids: NDArray[np.intp]
    update: Series
    """Squared norms of each group's step, its tensors taken as one long vector: (row, group)."""
    delta: Series
    gradient: Series | None


def _grouping(tables: Tables, labels: Sequence[str]) -> _Grouping:
    names = list(dict.fromkeys(labels))
    if all(name.isdigit() for name in names):
        names.sort(key=int)
    position = {name: i for i, name in enumerate(names)}
    ids = np.array([position[label] for label in labels], dtype=np.intp)

    def squares(series: Series) -> Series:
        return Series(series.steps, _by_group(series.values**2, ids))

    gradient = None if tables.gradient is None else squares(tables.gradient)
    return _Grouping(names, ids, squares(tables.update), squares(tables.delta), gradient)


def _by_group(values: Floats, ids: NDArray[np.intp]) -> Floats:
    """Add columns of one group: (row, tensor) -> (row, group); nan counts as nothing, a group of only nan is nan."""
    order = np.argsort(ids, kind="stable")
    starts = np.searchsorted(ids[order], np.arange(ids.max() + 1))
    finite = np.isfinite(values)
    if finite.all():
        return np.add.reduceat(values[:, order], starts, axis=1)
    sums = np.add.reduceat(np.where(finite, values, 0.0)[:, order], starts, axis=1)
    return np.where(np.logical_or.reduceat(finite[:, order], starts, axis=1), sums, np.nan)


@dataclass(frozen=True)
class _GroupSums:
    """Movement by group over the rows of one stretch of the run."""

    displacement: Floats
    path: Floats
    gradient_energy: Floats


def _sums(grouping: _Grouping, low: float = -np.inf, high: float = np.inf) -> _GroupSums:
    def within(series: Series) -> NDArray[np.bool_]:
        return (series.steps > low) & (series.steps <= high)

    update, delta, gradient = grouping.update, grouping.delta, grouping.gradient
    rows = within(update)
    path = _total(np.sqrt(update.values[rows]) * update.gaps[rows, None])
    displacement = np.sqrt(delta.values[within(delta)][-1])
    energy = np.full(len(grouping.names), np.nan)
    if gradient is not None:
        rows = within(gradient)
        energy = _total(gradient.values[rows] * gradient.gaps[rows, None])
    return _GroupSums(displacement, path, energy)


def _total(rows: Floats) -> Floats:
    """Sum over rows; a row without a value counts as nothing, a column without any value is nan."""
    return np.where(np.isfinite(rows).any(axis=0), np.nansum(rows, axis=0), np.nan)


def _shares(values: Floats) -> Floats:
    total = np.nansum(values)
    return values / total if total > 0 else np.full(values.shape, np.nan)


def _median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")


def _groups(tables: Tables, grouping: _Grouping) -> tuple[GroupMovement, ...]:
    names, ids = grouping.names, grouping.ids
    sums = _sums(grouping)
    base = np.sqrt(np.bincount(ids, weights=tables.base_norm**2, minlength=len(names)))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative, coherence = sums.displacement / base, sums.displacement / sums.path
    displacement_share, path_share = _shares(sums.displacement**2), _shares(sums.path)
    gradient_share = _shares(sums.gradient_energy)
    return tuple(
        GroupMovement(
            group=name,
            tensors=int((ids == i).sum()),
            elements=int(tables.elements[ids == i].sum()),
            displacement=float(sums.displacement[i]),
            displacement_share=float(displacement_share[i]),
            relative_displacement=float(relative[i]),
            path=float(sums.path[i]),
            path_share=float(path_share[i]),
            coherence=float(coherence[i]),
            gradient_share=float(gradient_share[i]),
            effective_rank=_median(tables.effective_rank[ids == i]),
            energy_rank_90=_median(tables.energy_rank[ids == i]),
        )
        for i, name in enumerate(names)
    )


def _spreads(
    tables: Tables, grouping: _Grouping, over: Literal["layer", "module"], edges: Floats | None
) -> list[Spread]:
    root = np.sqrt(np.bincount(grouping.ids, weights=tables.elements))
    whole = _sums(grouping)
    parts = [] if edges is None else [_sums(grouping, *pair) for pair in itertools.pairwise(edges)]
    found: list[Spread] = []
    for statistic in ("displacement", "path", "gradient"):
        values = _per_element(whole, statistic, root)
        if np.isnan(values).all():
            continue
        windows = [_per_element(part, statistic, root) for part in parts]
        found.append(
            Spread(
                over=over,
                statistic=statistic,
                groups=len(grouping.names),
                max_over_min=_ranged(max_over_min, values, windows),
                top_30_share=_ranged(top_share, values, windows),
                gini=_ranged(gini, values, windows),
            )
        )
    return found


def _per_element(sums: _GroupSums, statistic: Statistic, root: Floats) -> Floats:
    values = {"displacement": sums.displacement, "path": sums.path, "gradient": np.sqrt(sums.gradient_energy)}
    return values[statistic] / root


def _ranged(function: Any, values: Floats, windows: Sequence[Floats]) -> Ranged:
    over_windows = np.array([function(window) for window in windows])
    over_windows = over_windows[~np.isnan(over_windows)]
    if over_windows.size == 0:
        return Ranged(function(values), float("nan"), float("nan"))
    return Ranged(function(values), float(over_windows.min()), float(over_windows.max()))


def _ranks(tables: Tables) -> RankFindings | None:
    effective = tables.effective_rank[np.isfinite(tables.effective_rank)]
    if effective.size == 0:
        return None
    energy = tables.energy_rank[np.isfinite(tables.energy_rank)]
    return RankFindings(
        step=tables.rank_step,
        matrices=int(effective.size),
        effective_rank=_median(effective),
        effective_rank_low=float(effective.min()),
        effective_rank_high=float(effective.max()),
        energy_rank_90=_median(energy),
        energy_rank_90_low=float(energy.min()) if energy.size else float("nan"),
        energy_rank_90_high=float(energy.max()) if energy.size else float("nan"),
        share_of_cap=_median(tables.effective_rank / tables.rank_cap),
    )
