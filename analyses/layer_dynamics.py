"""How each layer moves over the steps of a run, and where the model has moved to: layer by step, layer by module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grpodyn.analysis import Analysis
from grpodyn.series.thinning import block_ends, block_means, block_starts

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

MOST_STEPS = 240
"""Columns of a map: blocks of steps in a longer run."""
_MATRICES = ("linear", "expert")
_UPDATE, _RATIO, _DELTA, _LAYER = "update_norm", "update_ratio", "delta_norm", "layer_delta"


@dataclass(frozen=True)
class LayerMap:
    """One quantity of every layer over steps, unit 1; nan where it was not recorded."""

    steps: tuple[int, ...]
    """Last step of each block."""
    layers: tuple[str, ...]
    """The layer's index, with its stack before it where the model has several."""
    values: tuple[tuple[float, ...], ...]
    """(layer, step)"""


@dataclass(frozen=True)
class ModuleMap:
    """Net displacement at the end, by layer and module type, over the weight matrices of the layers."""

    step: int
    layers: tuple[str, ...]
    modules: tuple[str, ...]
    displacement: tuple[tuple[float, ...], ...]
    """‖W_T − W_0‖_F, (layer, module); nan where a layer has no such module."""
    share: tuple[tuple[float, ...], ...]
    """Share of Σ‖W_T − W_0‖_F² over all of them, (layer, module)."""


@dataclass(frozen=True)
class LayerDynamics:
    """What moves when, and where to."""

    run: str
    status: str
    lora: bool
    """Whether the rows are effective updates of adapters."""
    update: LayerMap | None
    """‖W_t − W_{t−1}‖_F / ‖W‖_F of each layer's tensors taken as one vector, mean over the steps of a block."""
    displacement: LayerMap | None
    """‖W_t − W_0‖_F / ‖W_0‖_F, at the end of each block."""
    modules: ModuleMap | None
    notes: tuple[str, ...]


class LayerDynamicsAnalysis(Analysis):
    """Layer by step and layer by module."""

    name: ClassVar[str] = "layer_dynamics"
    title: ClassVar[str] = "How each layer moves over steps, and how far each module of each layer has moved"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = (
        "The probes update_norm, update_ratio, layer_delta and delta_norm, by layer and by module."
    )

    def run(self, run: Run, **options: Any) -> LayerDynamics:
        """Return the `LayerDynamics` of a run, with None for what it does not hold.

        Raises:
            MissingDataError: it holds nothing of all this.
        """
        update, displacement, modules = _update(run), _displacement(run), _modules(run)
        if update is None and displacement is None and modules is None:
            run.require(_LAYER, _UPDATE)
        missing = [
            f"{what} is not recorded: record the probe {probe}"
            for what, probe, found in (
                ("the relative update of each layer", _RATIO, update),
                ("the displacement of each layer", _LAYER, displacement),
                ("the displacement of each module", _DELTA, modules),
            )
            if found is None
        ]
        return LayerDynamics(
            run=run.path.name,
            status=run.status,
            lora=bool((_source(run) == "lora").any()),
            update=update,
            displacement=displacement,
            modules=modules,
            notes=tuple(missing),
        )


def _source(run: Run) -> NDArray[Any]:
    return np.asarray(run.tensors["source"].values, dtype=object) if run.rows["tensors"] else np.zeros(0, object)


def _holds(data: xr.Dataset, *probes: str) -> bool:
    return bool(data.sizes.get("row", 0)) and all(probe in data for probe in probes)


def _labels(layers: Any, stacks: Any) -> list[str]:
    several = len({str(stack) for stack in stacks}) > 1
    pairs = zip(layers, stacks, strict=True)
    return [f"{stack}.{int(layer)}" if several else str(int(layer)) for layer, stack in pairs]


def _update(run: Run) -> LayerMap | None:
    if not _holds(run.tensors, _UPDATE, _RATIO):
        return None
    layer = np.asarray(run.tensors["layer"].values, np.int64)
    # The factors of an adapter and its effective update are one change seen twice.
    chosen = np.flatnonzero((layer >= 0) & (_source(run) != "factor"))
    norms = np.asarray(run.tensors[_UPDATE].values, np.float64)[:, chosen]
    base = _first_known(norms, np.asarray(run.tensors[_RATIO].values, np.float64)[:, chosen])
    recorded = np.isfinite(norms).any(axis=1)
    if not chosen.size or not recorded.any():
        return None
    labels = _labels(layer[chosen], run.tensors["stack"].values[chosen])
    names, members = _grouped(labels, layer[chosen])
    relative = np.stack([_relative(norms[recorded][:, index], base[index]) for index in members], axis=1)
    steps = np.asarray(run.tensors["step"].values, np.int64)[recorded]
    starts = block_starts(len(steps), MOST_STEPS)
    return _map(block_ends(steps.astype(np.float64), starts), names, block_means(relative, starts))


def _first_known(norms: Floats, ratio: Floats) -> Floats:
    """Return ‖W‖_F of each tensor by the first update that is not zero."""
    usable = np.isfinite(norms) & np.isfinite(ratio) & (ratio > 0)
    first, columns = usable.argmax(axis=0), np.arange(norms.shape[1])
    found = np.full(norms.shape[1], np.nan)
    known = usable.any(axis=0)
    found[known] = (norms[first, columns][known]) / (ratio[first, columns][known])
    return found


def _relative(norms: Floats, base: Floats) -> Floats:
    """Return √(Σ norms²)/√(Σ base²) over a layer's tensors; one whose weight is not known counts on neither side."""
    known = np.isfinite(base)
    whole = float(np.sqrt(np.square(base[known]).sum()))
    moved: Floats = np.sqrt(np.square(norms[:, known]).sum(axis=1))
    return moved / whole if whole > 0 else np.full(len(norms), np.nan)


def _grouped(labels: list[str], layer: NDArray[np.int64]) -> tuple[list[str], list[list[int]]]:
    """Return each layer's name and the places of its tensors, in the order of stacks and layers."""
    members: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        members.setdefault(label, []).append(place)
    names = sorted(members, key=lambda name: (name.rpartition(".")[0], int(layer[members[name][0]])))
    return names, [members[name] for name in names]


def _displacement(run: Run) -> LayerMap | None:
    if not _holds(run.layers, _LAYER):
        return None
    values = np.asarray(run.layers[_LAYER].values, np.float64)
    recorded = np.isfinite(values).any(axis=1)
    if not recorded.any():
        return None
    layer = np.asarray(run.layers["layer"].values, np.int64)
    stacks = run.layers["stack"].values if "stack" in run.layers.coords else [""] * len(layer)
    steps = np.asarray(run.layers["step"].values, np.int64)[recorded]
    starts = block_starts(len(steps), MOST_STEPS)
    ends = block_ends(values[recorded], starts)
    return _map(block_ends(steps.astype(np.float64), starts), _labels(layer, stacks), ends)


def _map(steps: Floats, names: list[str], values: Floats) -> LayerMap:
    """Return a map of (step, layer) values."""
    return LayerMap(
        tuple(int(step) for step in steps), tuple(names), tuple(tuple(map(float, column)) for column in values.T)
    )


def _modules(run: Run) -> ModuleMap | None:
    if not _holds(run.tensors, _DELTA):
        return None
    source = _source(run)
    wanted = "lora" if (source == "lora").any() else "full"
    layer = np.asarray(run.tensors["layer"].values, np.int64)
    matrices = np.isin(np.asarray(run.tensors["kind"].values, dtype=object), _MATRICES)
    chosen = np.flatnonzero((layer >= 0) & (source == wanted) & matrices)
    delta = np.asarray(run.tensors[_DELTA].values, np.float64)[:, chosen]
    recorded = np.flatnonzero(np.isfinite(delta).any(axis=1))
    if not chosen.size or not recorded.size:
        return None
    last = delta[recorded[-1]]
    labels = _labels(layer[chosen], run.tensors["stack"].values[chosen])
    names, _ = _grouped(labels, layer[chosen])
    kinds = [str(module) for module in run.tensors["module"].values[chosen]]
    modules = list(dict.fromkeys(kinds))
    squares = np.full((len(names), len(modules)), np.nan)
    for value, label, module in zip(last**2, labels, kinds, strict=True):
        place = names.index(label), modules.index(module)
        # Experts of one layer and type are one cell.
        squares[place] = np.nansum([squares[place], value]) if np.isfinite(value) else squares[place]
    total = float(np.nansum(squares))
    share = squares / total if total > 0 else np.full(squares.shape, np.nan)
    return ModuleMap(
        step=int(run.tensors["step"].values[recorded[-1]]),
        layers=tuple(names),
        modules=tuple(modules),
        displacement=tuple(tuple(map(float, row)) for row in np.sqrt(squares)),
        share=tuple(tuple(map(float, row)) for row in share),
    )
