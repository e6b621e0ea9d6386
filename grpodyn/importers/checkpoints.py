"""Saved weights as a run: what a Hugging Face checkpoint or an adapter changed of its base, one tensor at a time.

Needs torch, transformers and (for adapters) peft. At most one tensor of the base and of one checkpoint is in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grpodyn import registry
from grpodyn.attribution.adapter import AdapterWeights, is_adapter
from grpodyn.attribution.weights import FolderWeights, Weights
from grpodyn.errors import MissingDataError, UnreadableError, UsageError
from grpodyn.importers.history import History, understand
from grpodyn.importers.read import read_log
from grpodyn.importers.write import SOURCE
from grpodyn.lora import twin
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.matrices import matrices_of
from grpodyn.naming.place import head_of, place
from grpodyn.probe import Need, SpectralProbe
from grpodyn.spectra.changes import changed_noticeably
from grpodyn.spectra.norms import squared_norm
from grpodyn.spectra.singular import singular_values
from grpodyn.spectra.stacks import pooled, weighted_mean
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

MODEL = "model"
"""Link in the run directory to the last checkpoint, where attribution looks for the trained weights."""
_STEP = re.compile(r"(?:checkpoint|step|iter|global_step)[-_]?(\d+)", re.I)
_STATE = "trainer_state.json"
_LEADING = 16
_MISSING = (
    ("update_norm, update_ratio, grad_norm", "imported from saved weights: single steps are not in them"),
    ("rollouts", "imported from saved weights"),
)


class _Zeros:
    """A base of zeros: on it an adapter's weights are its change alone, without the rounding of a sum."""

    def __init__(self, base: Weights) -> None:
        self._base = base
        self.place = base.place

    def tensor(self, name: str) -> Tensor | None:
        found = self._base.tensor(name)
        return None if found is None else torch.zeros(found.shape)

    def digest(self) -> str:
        return self._base.digest()


@dataclass
class _Row:
    """What one checkpoint measures, in the order of the tensor axis."""

    delta: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    spectra: dict[str, list[Any]] = field(default_factory=dict)
    layers: dict[tuple[str, int], list[float]] = field(default_factory=dict)


def import_checkpoints(
    folders: Sequence[Path], base: Path, run_dir: Path, config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a run of the changes that checkpoints hold: displacements, layer displacements and spectra.

    Args:
        folders: checkpoints of whole models, or adapters; all of one kind.
        base: folder of the model they started from.
        run_dir: an absent or empty directory.
        config: the run config, if it is known.

    Returns:
        steps, tensors, skipped [{what, why}].

    Raises:
        MissingDataError, UnreadableError: weights are not there, or do not fit the base.
        UsageError: checkpoints and adapters are mixed, or two are of one step.
        DirectoryInUseError: the directory holds something.
    """
    ordered = _ordered(folders)
    adapted = {is_adapter(folder) for folder in ordered.values()}
    if len(adapted) > 1:
        raise UsageError("some of the folders are adapters and some whole models; import them apart")
    model_config = _model_config(base)
    before = FolderWeights(base)
    described = {"name": str(base), "class": _class_of(model_config), "config": model_config}
    model = twin.build(described).model
    lora = adapted == {True}
    names = _names(ordered, before, model, described) if lora else _parameters(model)
    infos = [_info(model, name, live, before, lora) for name, live in names.items()]
    last = list(ordered.values())[-1]
    manifest = _manifest(described, before, base, last, lora, ordered, config)
    writer = TraceWriter.create(run_dir, manifest)
    try:
        _write(writer, ordered, before, described, infos)
    finally:
        failed = writer.failed
        writer.close("finished")
    if failed is not None:
        raise UnreadableError(f"{run_dir} could not be written: {failed}")
    with contextlib.suppress(OSError):
        os.symlink(last.resolve(), run_dir / MODEL, target_is_directory=True)
    skipped = [{"what": what, "why": why} for what, why in _MISSING]
    return {"steps": list(ordered), "tensors": len(infos), "skipped": skipped}


def _ordered(folders: Sequence[Path]) -> dict[int, Path]:
    """Return checkpoints by step: as the trainer wrote it, else as the folder is called, else in the order given."""
    found: dict[int, Path] = {}
    for place_in_line, folder in enumerate(folders, start=1):
        if not folder.is_dir():
            raise UnreadableError(f"{folder} is no folder; give checkpoints as `save_pretrained` writes them")
        step = _step_of(folder)
        step = place_in_line if step is None else step
        if step in found:
            raise UsageError(f"{found[step]} and {folder} are both of step {step}; give one of them")
        found[step] = folder
    return dict(sorted(found.items()))


def _step_of(folder: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((folder / _STATE).read_bytes())["global_step"])
    match = _STEP.search(folder.name)
    return int(match[1]) if match else None


def _model_config(base: Path) -> dict[str, Any]:
    try:
        found = json.loads((base / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise MissingDataError(
            f"{base} holds no readable config.json ({error}); give the folder of the base"
        ) from error
    if not isinstance(found, dict):
        raise MissingDataError(f"{base}/config.json holds no mapping; give the folder of the base")
    return found


def _class_of(config: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    return str(listed[0]) if isinstance(listed, list) and listed else ""


def _parameters(model: nn.Module) -> dict[str, str]:
    """Return canonical name -> live name of every parameter; tied ones once."""
    return {canonical_name(live): live for live, _ in model.named_parameters()}


def _names(
    ordered: Mapping[int, Path], before: Weights, model: nn.Module, described: Mapping[str, Any]
) -> dict[str, str]:
    """Return the weights that the adapters change."""
    changed: set[str] = set()
    for folder in ordered.values():
        # PEFT changes the model it is put on: each adapter gets a twin of its own.
        changed |= AdapterWeights(before, folder, twin.build(described).model).changed
    return {name: live for name, live in _parameters(model).items() if name in changed}


def _info(model: nn.Module, name: str, live: str, before: Weights, lora: bool) -> TensorInfo:
    parameter = model.get_parameter(live)
    shape = tuple(parameter.shape)
    where = place(model, live, shape, head_of(model))
    as_matrices = matrices_of(where.owner, live.rsplit(".", 1)[-1], shape, where.kind)
    stored = before.tensor(name)
    if stored is None or tuple(stored.shape) != shape:
        held = "nothing" if stored is None else f"a tensor of shape {tuple(stored.shape)}"
        raise UnreadableError(f"{before.place} holds {held} for {name}, expected shape {shape}; is it the base?")
    return TensorInfo(
        name=name,
        layer=where.layer,
        module=where.module,
        stack=where.stack,
        kind=where.kind,
        rows=as_matrices.rows,
        cols=as_matrices.cols,
        dtype=str(stored.dtype).removeprefix("torch."),
        trainable=True,
        source="lora" if lora else "full",
        matrices=as_matrices.count,
        layout=as_matrices.layout,
    )


def _manifest(
    described: Mapping[str, Any],
    before: FolderWeights,
    base: Path,
    last: Path,
    lora: bool,
    ordered: Mapping[int, Path],
    config: Mapping[str, Any] | None,
) -> Manifest:
    adapter = None
    if lora:
        adapter = json.loads((last / "adapter_config.json").read_bytes())
    reference = {"source": "checkpoint", "path": str(base.resolve()), "sha256": before.files.sha256()}
    recorder = {
        "source": SOURCE,
        "producer": "adapters" if lora else "checkpoints",
        "imported_from": {str(step): str(folder) for step, folder in ordered.items()},
        "skipped": [{"what": what, "why": why} for what, why in _MISSING],
    }
    return Manifest(
        model=dict(described),
        reference=reference,
        lora=adapter,
        recorder=recorder,
        config=None if config is None else dict(config),
    )


def _write(
    writer: TraceWriter,
    ordered: Mapping[int, Path],
    before: FolderWeights,
    described: Mapping[str, Any],
    infos: Sequence[TensorInfo],
) -> None:
    writer.declare_tensors(infos)
    probes = _spectral_probes()
    writer.declare_arrays(
        "tensors", {name: ArraySpec(("row", "tensor")) for name in ("delta_norm", "delta_changed_fraction")}
    )
    writer.declare_arrays("spectra", {name: ArraySpec(probe.dims) for name, probe in probes.items()})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    declared = False
    for step, folder in ordered.items():
        row = _measure(folder, before, described, infos, probes)
        places = sorted(row.layers, key=lambda key: (key[0], key[1]))
        if places and not declared:
            writer.declare_layers([layer for _, layer in places], [stack for stack, _ in places])
            declared = True
        writer.add_row("tensors", step, {"delta_norm": row.delta, "delta_changed_fraction": row.changed})
        if places:
            moved = [
                (row.layers[key][0] / row.layers[key][1]) ** 0.5 if row.layers[key][1] else np.nan for key in places
            ]
            writer.add_row("layers", step, {"layer_delta": moved})
        spectra = {name: np.array(values, dtype=np.float64) for name, values in row.spectra.items()}
        measured = np.where(np.isfinite(spectra["stable_rank"]), step, -1) if "stable_rank" in spectra else None
        writer.add_row("spectra", step, spectra if measured is None else {**spectra, "measured_step": measured})
    for history in _histories(list(ordered.values())):
        for logged in history.rows:
            writer.add_row("metrics", logged.step, dict(logged.values), logged.time)
        for logged in history.evaluations:
            writer.add_row("evaluations", logged.step, dict(logged.values))


def _histories(folders: Sequence[Path]) -> list[History]:
    """Return what the trainer logged, where the last checkpoint holds it."""
    for folder in reversed(folders):
        if (folder / _STATE).is_file():
            return [understand(read_log(folder / _STATE))]
    return []


def _spectral_probes() -> dict[str, SpectralProbe]:
    return {
        name: probe
        for name, probe in registry.probes().items()
        if isinstance(probe, SpectralProbe) and probe.needs == frozenset({Need.DELTA})
    }


def _measure(
    folder: Path,
    before: FolderWeights,
    described: Mapping[str, Any],
    infos: Sequence[TensorInfo],
    probes: Mapping[str, SpectralProbe],
) -> _Row:
    lora = is_adapter(folder)
    after, change_alone = _weights(folder, before, described) if lora else (FolderWeights(folder), False)
    row = _Row(spectra={name: [] for name in probes})
    for info in infos:
        old, new = before.tensor(info.name), after.tensor(info.name)
        if old is None or new is None or old.shape != new.shape:
            held = "nothing" if new is None else f"shape {tuple(new.shape)}"
            raise UnreadableError(f"{folder} holds {held} for {info.name}; it is no checkpoint of {before.place}")
        if not (old.is_floating_point() and new.is_floating_point()):
            raise UnreadableError(f"{info.name} is stored as {old.dtype} and {new.dtype}; only floating types are read")
        start = old.float()
        # In float32: of two bf16 values the difference is exact there.
        change = new.float() if change_alone else new.float() - start
        square, norm = float(squared_norm(change)), float(squared_norm(start))
        row.delta.append(float(np.sqrt(square)) if np.isfinite(square) else np.nan)
        row.changed.append(float(changed_noticeably([start + change], [start])[0]) / change.numel())
        if info.layer >= 0:
            sums = row.layers.setdefault((info.stack, info.layer), [0.0, 0.0])
            sums[0] += square
            sums[1] += norm
        _spectra(row, info, change, probes)
    return row


def _weights(folder: Path, before: FolderWeights, described: Mapping[str, Any]) -> tuple[Weights, bool]:
    """Return an adapter's weights, and whether they are its change alone (DoRA rescales the base, so they are not)."""
    settings = json.loads((folder / "adapter_config.json").read_bytes())
    alone = (
        not settings.get("use_dora") and not settings.get("modules_to_save") and settings.get("bias") in (None, "none")
    )
    base: Weights = _Zeros(before) if alone else before
    return AdapterWeights(base, folder, twin.build(described).model), alone


def _spectra(row: _Row, info: TensorInfo, change: Tensor, probes: Mapping[str, SpectralProbe]) -> None:
    """Add one tensor's ranks; nan where it is no linear map, as embeddings and heads are opt-in elsewhere too."""
    if info.kind not in ("linear", "expert") or info.cols < 2:
        for name, probe in probes.items():
            row.spectra[name].append(np.full(_LEADING, np.nan) if "k" in probe.dims else np.nan)
        return
    matrices = change.reshape(info.matrices, info.rows, info.cols)
    values = [singular_values(matrix) for matrix in matrices]
    weights = [float(np.square(v).sum()) for v in values]
    for name, probe in probes.items():
        if "k" in probe.dims:
            leading = np.full(_LEADING, np.nan)
            found = np.asarray(probe.compute(pooled(values)))[:_LEADING]
            leading[: len(found)] = found
            row.spectra[name].append(leading)
        else:
            row.spectra[name].append(weighted_mean([probe.compute(v) for v in values], weights))
