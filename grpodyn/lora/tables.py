"""The series of a run that its movement is computed from, cut down to what an adapter on linear modules can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from grpodyn.errors import MissingDataError

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

_BLOCK_OF_ROWS = 512


@dataclass(frozen=True)
class Series:
    """One probe's rows: those where at least one tensor has a finite value."""

    steps: NDArray[np.int64]
    values: Floats
    """(row, tensor)"""

    def columns(self, index: NDArray[np.intp]) -> Series:
        """Return the series of some of the tensors."""
        everything = index.size == self.values.shape[1]
        return self if everything else Series(self.steps, self.values[:, index])

    @property
    def gaps(self) -> Floats:
        """Steps that each row stands for: 1 if every step is recorded, 5 if every fifth is."""
        if self.steps.size < 2:
            return np.ones(self.steps.size)
        gaps = np.diff(self.steps).astype(np.float64)
        return np.concatenate([[min(float(np.median(gaps)), float(max(self.steps[0], 1)))], gaps])


@dataclass(frozen=True)
class Tables:
    """Everything read from the trace, cut down to the linear weights of the blocks (or their effective LoRA ΔW)."""

    update: Series
    delta: Series
    gradient: Series | None
    base_norm: Floats
    layer: list[str]
    module: list[str]
    elements: Floats
    effective_rank: Floats
    energy_rank: Floats
    rank_step: int
    rank_cap: Floats
    outside_share: float
    dtypes: tuple[str, ...]
    lora: bool
    notes: list[str]


def _series(dataset: xr.Dataset, name: str) -> Series | None:
    if name not in dataset:
        return None
    values = np.asarray(dataset[name].values, dtype=np.float64)
    steps = np.asarray(dataset["step"].values, dtype=np.int64)
    due = np.isfinite(values).any(axis=1) if values.size else np.zeros(len(steps), dtype=bool)
    if due.all():
        return Series(steps, values) if due.size else None
    return Series(steps[due], values[due]) if due.any() else None


def _texts(dataset: xr.Dataset, name: str, index: NDArray[np.intp] | None = None) -> list[str]:
    values = dataset[name].values if index is None else dataset[name].values[index]
    return [str(value) for value in values]


def _required(dataset: xr.Dataset, name: str, run: Run) -> Series:
    series = _series(dataset, name)
    if series is None:
        raise MissingDataError(
            f"{run.path}: no finite value of {name} was recorded (status {run.status}, last step {run.last_step}); "
            "`grpodyn status` says what was skipped and why"
        )
    return series


def from_saved_weights(run: Run) -> bool:
    """Return whether a run was imported from checkpoints, which hold displacements and no single steps."""
    return run.manifest.recorder.get("source") == "import"


def read(run: Run) -> Tables:
    """Read what `lora_movement` needs from a run.

    Raises:
        MissingDataError: no linear weight of the blocks has a finite displacement.
    """
    tensors = run.tensors
    notes: list[str] = []
    source = np.array(_texts(tensors, "source"), dtype=object)
    kind = np.array(_texts(tensors, "kind"), dtype=object)
    layer = np.asarray(tensors["layer"].values, dtype=np.int64)
    lora = bool((source == "lora").any())
    inside = (source == ("lora" if lora else "full")) & (kind == "linear") & (layer >= 0)
    if from_saved_weights(run):
        delta = _required(tensors, "delta_norm", run)
        # Single steps are not in saved weights: there is a displacement and no path.
        update = Series(delta.steps, np.full_like(delta.values, np.nan))
        notes.append("imported from saved weights: no update_norm, so no path length and no coherence")
        known = np.isfinite(delta.values[-1])
    else:
        update, delta = _required(tensors, "update_norm", run), _required(tensors, "delta_norm", run)
        known = np.isfinite(delta.values[-1]) & np.isfinite(update.values).any(axis=0)
    unknown = [name for name, bad in zip(_texts(tensors, "tensor"), inside & ~known, strict=True) if bad]
    if unknown:
        notes.append(f"{len(unknown)} tensors without a finite displacement are left out, the first: {unknown[0]}")
    index = np.flatnonzero(inside & known)
    if index.size == 0:
        raise MissingDataError(
            f"{run.path}: of {inside.sum()} linear weights in the model's blocks none has a finite update_norm and "
            "delta_norm; nothing can be said about their movement"
        )
    gradient = _gradient(tensors, index, lora)
    if gradient is None:
        notes.append("grad_norm was not recorded: no gradient statistics (preset `standard` records it)")
    effective, energy, rank_step = _last_ranks(run, np.asarray(tensors["tensor"].values)[index])
    if rank_step < 0:
        notes.append("no spectral sweep was recorded: no ranks (preset `standard` records them)")
    elements = np.asarray(tensors["rows"].values, np.float64) * np.asarray(tensors["cols"].values, np.float64)
    return Tables(
        update=update.columns(index),
        delta=delta.columns(index),
        gradient=gradient,
        base_norm=_base_norm(tensors, index),
        layer=_layer_names(tensors, index),
        module=_texts(tensors, "module", index),
        elements=elements[index],
        effective_rank=effective,
        energy_rank=energy,
        rank_step=rank_step,
        rank_cap=_rank_caps(tensors, index) if lora else np.full(index.size, np.nan),
        outside_share=_outside_share(delta.values[-1], index, source),
        dtypes=tuple(sorted(set(_texts(tensors, "dtype", index)))),
        lora=lora,
        notes=notes,
    )


def _layer_names(tensors: xr.Dataset, index: NDArray[np.intp]) -> list[str]:
    layers, stacks = tensors["layer"].values[index], _texts(tensors, "stack", index)
    if len(set(stacks)) == 1:
        return [str(int(layer)) for layer in layers]
    return [f"{stack}.{int(layer)}" for stack, layer in zip(stacks, layers, strict=True)]


def _outside_share(displacement: Floats, index: NDArray[np.intp], source: NDArray[Any]) -> float:
    # LoRA factors are a second view of the same change, not a change elsewhere.
    energy = np.where((source != "factor") & np.isfinite(displacement), displacement, 0.0) ** 2
    total = float(energy.sum())
    return float(1 - energy[index].sum() / total) if total > 0 else float("nan")


def _base_norm(tensors: xr.Dataset, index: NDArray[np.intp]) -> Floats:
    """‖W_0‖_F, from the first update_norm / update_ratio: the ratio's denominator is ‖W_{t−1}‖_F (‖W_0‖_F in LoRA)."""
    norms = np.full(index.size, np.nan)
    if "update_ratio" not in tensors:
        return norms
    columns = np.arange(index.size)
    for start in range(0, tensors.sizes["row"], _BLOCK_OF_ROWS):
        block = tensors.isel(row=slice(start, start + _BLOCK_OF_ROWS))
        update = np.asarray(block["update_norm"].values, np.float64)[:, index]
        ratio = np.asarray(block["update_ratio"].values, np.float64)[:, index]
        usable = np.isfinite(update) & np.isfinite(ratio) & (ratio > 0)
        first = usable.argmax(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = update[first, columns] / ratio[first, columns]
        norms = np.where(np.isnan(norms) & usable.any(axis=0), found, norms)
        if not np.isnan(norms).any():
            break
    return norms


def _factors(tensors: xr.Dataset, index: NDArray[np.intp]) -> dict[str, list[int]]:
    """Positions of the rows `….lora_A` and `….lora_B` that belong to each adapted weight."""
    found: dict[str, list[int]] = {}
    for position, (name, kind) in enumerate(zip(_texts(tensors, "tensor"), _texts(tensors, "kind"), strict=True)):
        if kind == "lora_factor":
            found.setdefault(name.rsplit(".lora_", 1)[0].removesuffix(".weight"), []).append(position)
    names = _texts(tensors, "tensor")
    return {names[i]: found.get(names[i].removesuffix(".weight"), []) for i in index}


def _gradient(tensors: xr.Dataset, index: NDArray[np.intp], lora: bool) -> Series | None:
    series = _series(tensors, "grad_norm")
    if series is None or not lora:
        return None if series is None else series.columns(index)
    # An effective ΔW has no gradient of its own: its factors have.
    squares = series.values**2
    columns = [squares[:, rows].sum(axis=1) if rows else None for rows in _factors(tensors, index).values()]
    missing = np.full(series.steps.size, np.nan)
    return Series(series.steps, np.sqrt(np.stack([missing if c is None else c for c in columns], axis=1)))


def _rank_caps(tensors: xr.Dataset, index: NDArray[np.intp]) -> Floats:
    names, rows = _texts(tensors, "tensor"), np.asarray(tensors["rows"].values, np.float64)
    caps = [[rows[i] for i in found if ".lora_A" in names[i]] for found in _factors(tensors, index).values()]
    return np.array([cap[0] if cap else np.nan for cap in caps])


def _last_ranks(run: Run, names: NDArray[Any]) -> tuple[Floats, Floats, int]:
    """Each tensor's effective and energy rank at its last measured sweep."""
    spectra = run.spectra
    series = _series(spectra, "effective_rank") if spectra.sizes.get("row", 0) else None
    if series is None:
        return np.full(names.size, np.nan), np.full(names.size, np.nan), -1
    columns = {str(name): i for i, name in enumerate(spectra["tensor"].values)}
    index = np.array([columns.get(str(name), -1) for name in names])

    def last(probe: str) -> Floats:
        if probe not in spectra:
            return np.full(names.size, np.nan)
        values = np.asarray(spectra[probe].values, np.float64)
        finite = np.isfinite(values)
        row = values.shape[0] - 1 - finite[::-1].argmax(axis=0)
        picked = np.where(finite.any(axis=0), values[row, np.arange(values.shape[1])], np.nan)
        return np.where(index >= 0, picked[index], np.nan)

    return last("effective_rank"), last("energy_rank_90"), int(series.steps[-1])
