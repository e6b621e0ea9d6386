"""A run of two stages, written through the real writer without any training; what each stage did is set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

FIRST, LAST = 10, 30
"""Last steps of the two stages."""
_MODULES = ("q_proj", "v_proj", "down_proj")


def write_staged_run(
    directory: Path,
    *,
    layers: int = 3,
    ended: bool = True,
    noted: dict[str, Any] | None = None,
    bare: bool = False,
    curriculum: bool = False,
) -> Run:
    """Write a run and open it.

    Layer l is at (l + 1) · 1e-5 · step of its norm at the start, √6 · 10. The spectra of a layer's matrices are at 1, 2
    and 9 times 1e-3 · step. Accuracy is step / 100, the perplexity of a text 10 + step / 10.

    Args:
        directory: where.
        layers: of the model.
        ended: whether the second stage has come to its end.
        noted: what its segment says of its own movement; None for 1 in every layer.
        bare: whether neither spectra nor perplexity were recorded.
        curriculum: whether the stages are those of a curriculum, `first` and `second`, tested again.
    """
    writer = TraceWriter.create(directory, Manifest())
    stack = "model.layers"
    infos = [_info(layer, module) for layer in range(layers) for module in _MODULES]
    writer.declare_tensors(infos)
    writer.declare_layers(list(range(layers)), [stack] * layers)
    writer.declare_arrays("tensors", {"delta_norm": ArraySpec(("row", "tensor"))})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    writer.declare_arrays("spectra", {"spectral_shift": ArraySpec(("row", "tensor"))})
    for step in range(1, LAST + 1):
        if step % 5 == 0:
            relative = np.arange(1, layers + 1) * 1e-5 * step
            writer.add_row("layers", step, {"layer_delta": relative})
            # Of three matrices: 1, 1 and 2 parts of the layer's displacement, whose squares add up to 6.
            parts = np.array([1.0, 1.0, 2.0])
            writer.add_row("tensors", step, {"delta_norm": np.outer(relative * 10, parts).reshape(-1)})
        if step in (FIRST, LAST) and not bare:
            writer.add_row("spectra", step, {"spectral_shift": np.tile([1.0, 2.0, 9.0], layers) * 1e-3 * step})
        writer.add_row("metrics", step, {"reward": step / LAST})
    for step in (0, FIRST, LAST):
        measured = {"heldout/accuracy": step / 100, "heldout/greedy_accuracy": step / 50}
        if not bare:
            measured |= {"perplexity/prose": 10 + step / 10}
        if curriculum:
            measured |= {"stage/first/accuracy": step / 40, "stage/second/accuracy": step / 60, "curriculum/test": 0.5}
        writer.add_row("evaluations", step, measured)
    writer.update_manifest(segments=_segments(layers, ended, noted, curriculum))
    writer.close("finished" if ended else "stopped_early")
    return open_run(directory)


def _segments(layers: int, ended: bool, noted: dict[str, Any] | None, curriculum: bool) -> list[dict[str, Any]]:
    names = ("first", "second") if curriculum else ("sft", "grpo")
    outcome = "mastered" if curriculum else "done"
    kinds = ("grpo", "grpo") if curriculum else ("sft", "grpo")
    spans = ((0, FIRST), (FIRST, LAST))
    found = [
        {"index": i, "start_step": a, "stage": name, "kind": kind, "stage_start": a, "outcome": outcome, "end_step": b}
        for i, (name, kind, (a, b)) in enumerate(zip(names, kinds, spans, strict=True))
    ]
    if ended:
        found[1] |= {"moved": {f"model.layers.{layer}": 1.0 for layer in range(layers)}} if noted is None else noted
    else:
        del found[1]["outcome"], found[1]["end_step"]
    return found


def _info(layer: int, module: str) -> TensorInfo:
    name = f"model.layers.{layer}.block.{module}.weight"
    return TensorInfo(name, layer, module, "model.layers", "linear", 16, 16, "float32", True, "full")
