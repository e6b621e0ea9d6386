"""A small run that holds something of every group, written through the real writer without any training.

What moves, and how much, is set by hand, so that what a figure says of it can be told beforehand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

MODULES = {"q_proj": (16, 16), "v_proj": (8, 16), "down_proj": (16, 32)}
G, PROMPTS = 4, 6


def write_whole_run(
    directory: Path,
    *,
    layers: int = 12,
    steps: int = 40,
    every: int = 1,
    lora: bool = False,
    planned: int | None = None,
    status: str | None = "finished",
    bad_from: int | None = None,
    seed: int = 0,
    **manifest: Any,
) -> Run:
    """Write a run and open it.

    Layer l moves (l + 1) · 1e-4 a step in a straight line, down_proj twice as much as the others; ‖W‖ is 10. The chance
    to be right rises from 0 to 1 along a logistic curve in the middle of the run.

    Args:
        directory: where.
        layers: of the model.
        steps: of the run.
        every: cadence of the rows of tensors and layers.
        lora: whether the rows are effective updates of an adapter of rank 4.
        planned: step at which training is planned to end.
        status: as the writer closes it; None leaves the run as a killed process does.
        bad_from: step from which norms and rewards are NaN.
        seed: of the rewards.
        manifest: fields of the manifest.
    """
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "model": {"name": "tiny", "config": {}},
        "trainer": {"arguments": {"max_steps": planned or steps, "learning_rate": 1e-5}},
        "lora": {"r": 4, "lora_alpha": 8} if lora else None,
    }
    writer = TraceWriter.create(directory, Manifest(**{**fields, **manifest}))
    infos = [_info(layer, module, lora) for layer in range(layers) for module in MODULES]
    writer.declare_tensors(infos)
    writer.declare_layers(list(range(layers)), ["model.layers"] * layers)
    norms = ("update_norm", "update_ratio", "delta_norm", "grad_norm")
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in norms})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    ranks = {name: ArraySpec(("row", "tensor")) for name in ("effective_rank", "stable_rank", "energy_rank_90")}
    writer.declare_arrays("spectra", {**ranks, "singular_values": ArraySpec(("row", "tensor", "k"))})
    writer.declare_reward_functions(["exact_match"])
    pace = np.array([(info.layer + 1) * (2e-4 if info.module == "down_proj" else 1e-4) for info in infos])
    for step in range(1, steps + 1):
        good = np.nan if bad_from is not None and step >= bad_from else 1.0
        if step % every == 0 or step == steps:
            norm = {"update_norm": pace, "update_ratio": pace / 10, "delta_norm": pace * step, "grad_norm": pace * 3}
            writer.add_row("tensors", step, {name: value * good for name, value in norm.items()})
            writer.add_row("layers", step, {"layer_delta": np.arange(1, layers + 1) * 1e-5 * step * good})
        if step in (1, steps // 2, steps):
            writer.add_row("spectra", step, _spectra(infos, step, steps))
        right = (rng.random((PROMPTS, G)) < 1 / (1 + np.exp(-12 * (step / steps - 0.5)))).astype(float) * good
        writer.add_row("rollouts", step, _batch(right, step))
        logged = {"reward": float(right.mean()), "recorder_seconds": 0.02, "step_seconds": 1.0, "learning_rate": 1e-5}
        writer.add_row("metrics", step, logged)
    for step, accuracy in ((0, 0.05), (steps, 0.9)):
        retained = {"perplexity/prose": 10.0 + step / steps, "kl/forward": 2.0 * step / steps}
        held_out = {"heldout/accuracy": accuracy, "heldout/greedy_accuracy": accuracy + 0.05}
        writer.add_row("evaluations", step, {**held_out, **retained})
    writer.close(status or "running")
    return open_run(directory)


def _info(layer: int, module: str, lora: bool) -> TensorInfo:
    block = "mlp" if module == "down_proj" else "self_attn"
    rows, cols = MODULES[module]
    name = f"model.layers.{layer}.{block}.{module}.weight"
    return TensorInfo(
        name, layer, module, "model.layers", "linear", rows, cols, "float32", True, "lora" if lora else "full"
    )


def _spectra(infos: list[TensorInfo], step: int, steps: int) -> dict[str, Any]:
    """σ_k = 2^−k, and an effective rank of 1 + 2 step/steps in every matrix."""
    count = len(infos)
    return {
        "effective_rank": np.full(count, 1 + 2 * step / steps),
        "stable_rank": np.full(count, 1.3),
        "energy_rank_90": np.full(count, 2.0),
        "singular_values": np.tile(0.5 ** np.arange(6), (count, 1)),
        "measured_step": np.full(count, step),
    }


def _batch(right: np.ndarray, step: int) -> dict[str, Any]:
    return {
        "prompt_id": np.arange(PROMPTS) + PROMPTS * (step % 5),
        "reward": right,
        "length": np.full(right.shape, 7.0),
        "terminated": np.ones(right.shape),
        "advantage": right - right.mean(axis=1, keepdims=True),
        "rewards": right[..., None],
    }
