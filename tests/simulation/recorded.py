"""Small runs written through the real writer, from arrays as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

Rows = Mapping[int, Mapping[str, Any]]


def rollout(rewards: Any, prompts: Sequence[int] | None = None, parts: Any = None) -> dict[str, Any]:
    """Return one generation batch: rewards (prompt, generation), and of each function in a last axis."""
    reward = np.asarray(rewards, float)
    return {
        "prompt_id": np.arange(len(reward)) if prompts is None else np.asarray(prompts),
        "reward": reward,
        "length": np.full(reward.shape, 5.0),
        "terminated": np.ones(reward.shape),
        "advantage": np.zeros(reward.shape),
        "rewards": reward[:, :, None] if parts is None else np.asarray(parts, float),
    }


def record(
    directory: Path,
    *,
    rollouts: Mapping[int, Mapping[str, Any]] | None = None,
    reward_functions: Sequence[str] = ("exact_match",),
    metrics: Rows | Sequence[tuple[int, Mapping[str, float]]] | None = None,
    evaluations: Rows | None = None,
    layers: Mapping[int, Sequence[float]] | None = None,
    tensors: Sequence[TensorInfo] = (),
    tensor_rows: Rows | None = None,
    status: str = "finished",
    **manifest: Any,
) -> Run:
    """Write a run and open it; `layers` are rows of `layer_delta`."""
    writer = TraceWriter.create(directory, Manifest(**manifest))
    if rollouts:
        writer.declare_reward_functions(list(reward_functions))
    for step, batch in (rollouts or {}).items():
        writer.add_row("rollouts", step, batch)
    for step, values in _pairs(metrics):
        writer.add_row("metrics", step, values)
    for step, values in _pairs(evaluations):
        writer.add_row("evaluations", step, values)
    if layers:
        count = len(next(iter(layers.values())))
        writer.declare_layers(list(range(count)), ["model.layers"] * count)
        writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
        for step, values in layers.items():
            writer.add_row("layers", step, {"layer_delta": np.asarray(values, float)})
    if tensors:
        writer.declare_tensors(tensors)
        probes = {probe for values in (tensor_rows or {}).values() for probe in values}
        writer.declare_arrays("tensors", {probe: ArraySpec(("row", "tensor")) for probe in sorted(probes)})
        for step, values in (tensor_rows or {}).items():
            writer.add_row("tensors", step, {probe: np.asarray(value, float) for probe, value in values.items()})
    writer.close(status)
    return open_run(directory)


def _pairs(rows: Any) -> Any:
    return rows.items() if isinstance(rows, Mapping) else rows or ()
