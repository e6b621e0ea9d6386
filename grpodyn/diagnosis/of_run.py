"""Observations of a run directory, read through `open_run`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.diagnosis.groups import Groups, groups_of
from grpodyn.diagnosis.observations import NonFinite, Observations, Record, Tensors
from grpodyn.diagnosis.series import Floats, Series
from grpodyn.importers.keys import CLOSING, names_of
from grpodyn.importers.write import SOURCE
from grpodyn.trace.overview import overview

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

TRUNCATION = "attribution.json"
_MOST_VALUES = 40_000_000
"""Values of rollouts, or of tensors, that are held at once; longer runs are thinned, evenly."""
_TENSOR_PROBES = (
    "update_ratio", "update_norm", "update_norm_intended", "update_changed_fraction", "update_applied_fraction",
    "delta_norm", "grad_norm",
)  # fmt: skip
_SPECTRA = ("effective_rank", "spectral_shift", "principal_angle")


def observe_run(run: Run, *, tensors: bool = True) -> Observations:
    """Return what a run shows.

    Args:
        run: an opened run.
        tensors: read per-tensor probes and spectra too, which is most of what a large run holds.
    """
    manifest = run.manifest
    steps, columns = _metrics(run)
    norms = _tensors(run.tensors, _TENSOR_PROBES) if tensors and run.rows["tensors"] else None
    trained = manifest.model.get("config") or {}
    config = manifest.config
    return Observations(
        source=str(run.path),
        steps=steps,
        columns=columns,
        settings={**manifest.section("grpo"), **{k: v for k, v in manifest.arguments.items() if v is not None}},
        lora=manifest.lora,
        dtype=_dtype(norms, config),
        parameters=manifest.model.get("parameters"),
        layers=trained.get("num_hidden_layers") if isinstance(trained, Mapping) else None,
        weights=_weights(manifest.rewards),
        evaluations=_evaluations(run),
        groups=_groups(run),
        tensors=norms,
        spectra=_tensors(run.spectra, _SPECTRA) if tensors and run.rows["spectra"] else None,
        truncation=_truncation(run),
        non_finite=_non_finite(run),
        record=_record(run),
        config=config,
    )


def _metrics(run: Run) -> tuple[Any, dict[str, Floats]]:
    metrics = run.metrics
    if "values" not in metrics:
        return np.array([], dtype=np.int64), {}
    values = np.asarray(metrics["values"].values, dtype=np.float64)
    steps = np.asarray(metrics["step"].values, dtype=np.int64)
    keys = [str(name) for name in metrics["metric"].values]
    names = names_of(keys)
    columns = {names.canonical[key]: values[:, i] for i, key in enumerate(keys)}
    # The summary that closes a trainer's log is no row of training.
    ours = CLOSING | {"epoch", "recorder_seconds", "step_seconds", "num_tokens"}
    telling = [np.isfinite(column) for name, column in columns.items() if name not in ours]
    nulled = [np.isfinite(columns[name]) for name in CLOSING if name in columns]
    closing = np.any(nulled, axis=0) if nulled else np.zeros(len(steps), bool)
    kept = np.any(telling, axis=0) | ~closing if telling else ~closing
    return steps[kept], {name: column[kept] for name, column in columns.items() if name not in CLOSING}


def _dtype(tensors: Tensors | None, config: Mapping[str, Any] | None) -> str | None:
    if tensors is not None:
        trained = [d for d, source in zip(tensors.dtypes, tensors.sources, strict=True) if source != "lora"]
        if trained:
            return max(set(trained), key=trained.count)
    model = (config or {}).get("model")
    return model.get("dtype") if isinstance(model, Mapping) else None


def _weights(rewards: Any) -> dict[str, float]:
    found = {}
    for entry in rewards if isinstance(rewards, list) else []:
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            weight = entry.get("weight")
            found[entry["name"]] = float(weight) if isinstance(weight, int | float) else 1.0
    return found


def _evaluations(run: Run) -> dict[str, Series]:
    evaluations = run.evaluations
    if "values" not in evaluations:
        return {}
    values = np.asarray(evaluations["values"].values, dtype=np.float64)
    steps = np.asarray(evaluations["step"].values, dtype=np.int64)
    found = {}
    for i, name in enumerate(evaluations["metric"].values):
        held = np.isfinite(values[:, i])
        found[str(name)] = Series(steps[held], values[held, i])
    return found


def _groups(run: Run) -> Groups | None:
    rollouts = run.rollouts
    if "reward" not in rollouts or not rollouts.sizes.get("row", 0):
        return None
    functions = tuple(str(n) for n in rollouts["reward_function"].values) if "reward_function" in rollouts else ()
    a_row = max(1, rollouts.sizes["prompt"] * rollouts.sizes["generation"] * max(1, len(functions)))
    every = math.ceil(rollouts.sizes["row"] * a_row / _MOST_VALUES)
    taken = rollouts.isel(row=slice(None, None, every)) if every > 1 else rollouts

    def values(name: str) -> Floats | None:
        return np.asarray(taken[name].values, dtype=np.float64) if name in taken else None

    total = values("reward")
    steps = np.asarray(taken["step"].values, dtype=np.int64)
    return None if total is None else groups_of(steps, total, values("rewards"), values("length"), functions)


def _tensors(dataset: xr.Dataset, probes: tuple[str, ...]) -> Tensors:
    most = max(2, _MOST_VALUES // max(1, dataset.sizes["tensor"] * len(probes)))
    if dataset.sizes["row"] > most:
        dataset = dataset.isel(row=np.unique(np.linspace(0, dataset.sizes["row"] - 1, most).astype(int)))

    def texts(name: str) -> tuple[str, ...]:
        return tuple(str(value) for value in dataset[name].values)

    return Tensors(
        steps=np.asarray(dataset["step"].values, dtype=np.int64),
        names=texts("tensor"),
        modules=texts("module"),
        layers=np.asarray(dataset["layer"].values, dtype=np.int64),
        kinds=texts("kind"),
        sources=texts("source"),
        dtypes=texts("dtype"),
        probes={name: np.asarray(dataset[name].values, np.float64) for name in probes if name in dataset},
    )


def _truncation(run: Run) -> dict[int, tuple[float, float, float]]:
    """Return what attribution found when it cut the run's change to lower ranks; nothing if it was not asked."""
    try:
        content = json.loads((run.path / TRUNCATION).read_bytes())
        rows = [(int(row["rank"]), row["accuracy"]) for row in content["truncation"]]
        return {rank: (float(a["value"]), float(a["low"]), float(a["high"])) for rank, a in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _non_finite(run: Run) -> tuple[NonFinite, ...]:
    found = []
    for event in run.events:
        what = str(event.get("what"))
        if what.startswith("non-finite"):
            tensor = event.get("tensor")
            name = str(event.get("metric") or what.removeprefix("non-finite "))
            found.append(NonFinite(int(event["step"]), name, None if tensor is None else str(tensor)))
    return tuple(found)


def _record(run: Run) -> Record:
    facts = overview(run)
    recorder = run.manifest.recorder
    imported = recorder.get("source") == SOURCE
    problems = [f"{gap.group}: no rows after step {gap.after} up to step {gap.before}" for gap in facts.gaps]
    problems += run.problems
    if recorder.get("stopped"):
        problems.append(f"recording stopped before training did: {recorder['stopped']}")
    if imported:
        problems += [str(note) for note in recorder.get("notes") or []]
    return Record(
        status=run.status,
        imported=imported,
        producer=str(recorder.get("producer") or ""),
        sampled=bool(recorder.get("sampled")),
        problems=tuple(problems),
        skipped=tuple(f"{item['what']}: {item['why']}" for item in facts.skipped),
    )
