from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import CONFIG_MAPPING

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def model_config(model_type: str = "qwen3", **extra: Any) -> dict[str, Any]:
    return CONFIG_MAPPING[model_type](**{**SIZES, **extra}).to_dict()


def qwen3_tensors(layers: int = 6, lora_rank: int | None = None, dtype: str = "float32") -> list[TensorInfo]:
    """The linear weights of a tiny Qwen3 and its embedding; as LoRA rows with their factors if a rank is given."""
    shape = {"q_proj": (64, 64), "k_proj": (32, 64), "v_proj": (32, 64), "o_proj": (64, 64)}
    shape |= {"gate_proj": (96, 64), "up_proj": (96, 64), "down_proj": (64, 96)}
    found = (
        []
        if lora_rank
        else [_info("model.embed_tokens.weight", -1, "embed_tokens", "embedding", 128, 64, dtype, "full")]
    )
    for layer in range(layers):
        for module, (rows, cols) in shape.items():
            block = "self_attn" if module in SEVEN[:4] else "mlp"
            name = f"model.layers.{layer}.{block}.{module}"
            source = "lora" if lora_rank else "full"
            found.append(_info(f"{name}.weight", layer, module, "linear", rows, cols, dtype, source))
            if lora_rank:
                found.append(_info(f"{name}.lora_A", layer, module, "lora_factor", lora_rank, cols, dtype, "factor"))
                found.append(_info(f"{name}.lora_B", layer, module, "lora_factor", rows, lora_rank, dtype, "factor"))
    return found


def _info(name: str, layer: int, module: str, kind: str, rows: int, cols: int, dtype: str, source: str) -> TensorInfo:
    stack = "model.layers" if layer >= 0 else ""
    return TensorInfo(name, layer, module, stack, kind, rows, cols, dtype, True, source)


MakeRun = Callable[..., Run]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that were recorded in this session, by what they were made of: each is written once, then copied."""
    return {"root": tmp_path_factory.mktemp("recorded")}


@pytest.fixture
def make_run(tmp_path: Path, recorded: dict[str, Path]) -> MakeRun:
    """Give a synthetic run as the real writer wrote it: every weight takes steps of one size, in its layer's direction.

    The displacement after t steps is `coherence[layer] · t` times the step, so every golden can be derived by hand.
    """

    def make(name: str = "run", **options: Any) -> Run:
        if options.get("status", "finished") is None:
            # A run that is still written cannot be copied.
            record(tmp_path / name, **options)
            return open_run(tmp_path / name)
        key = repr(sorted(options.items()))
        if key not in recorded:
            recorded[key] = recorded["root"] / str(len(recorded))
            record(recorded[key], **options)
        shutil.copytree(recorded[key], tmp_path / name)
        return open_run(tmp_path / name)

    return make


def record(
    run_dir: Path,
    steps: int = 40,
    every: int = 1,
    delta_every: int = 5,
    coherence: Any = None,
    lora_rank: int | None = None,
    effective_rank: float = 3.0,
    status: str | None = "finished",
    manifest: dict[str, Any] | None = None,
    dtype: str = "float32",
    probes: tuple[str, ...] = ("update_norm", "update_ratio", "grad_norm", "delta_norm"),
    spectra: bool = True,
) -> None:
    """Write the run that `make_run` hands out."""
    tensors = qwen3_tensors(lora_rank=lora_rank, dtype=dtype)
    layer = np.array([t.layer for t in tensors])
    elements = np.array([t.rows * t.cols for t in tensors], dtype=float)
    factor = np.array([t.source == "factor" for t in tensors])
    straight = np.array([1.0] * 6 if coherence is None else coherence)
    step_norm = 0.01 * np.sqrt(elements)
    fields: dict[str, Any] = {
        "model": {"name": "tiny", "revision": None, "class": "Qwen3ForCausalLM", "config": model_config()},
        "trainer": {"class": "GRPOTrainer", "arguments": {"learning_rate": 1e-6}},
    }
    if lora_rank:
        fields["lora"] = {"r": lora_rank, "lora_alpha": 32, "use_rslora": False, "lora_dropout": 0.05}
    writer = TraceWriter.create(run_dir, Manifest(**{**fields, **(manifest or {})}))
    writer.declare_tensors(tensors)
    writer.declare_arrays("tensors", {probe: ArraySpec(("row", "tensor")) for probe in probes})
    ranks = {"effective_rank": ArraySpec(("row", "tensor")), "energy_rank_90": ArraySpec(("row", "tensor"))}
    writer.declare_arrays("spectra", ranks)
    for step in range(1, steps + 1):
        if step % every and step not in (1, steps):
            continue
        full = {
            "update_norm": step_norm,
            "update_ratio": step_norm / (0.5 * np.sqrt(elements)),
            "grad_norm": np.where(factor, 2.0, np.nan) if lora_rank else (1.0 + np.maximum(layer, 0)),
            "delta_norm": step_norm * step * np.where(layer >= 0, straight[np.maximum(layer, 0)], 1.0)
            if step % delta_every == 0 or step in (1, steps)
            else np.full(len(tensors), np.nan),
        }
        writer.add_row("tensors", step, {probe: full[probe] for probe in probes})
    if spectra:
        measured = np.where(factor | (layer < 0), np.nan, effective_rank)
        row = {"effective_rank": measured, "energy_rank_90": np.ceil(measured)}
        writer.add_row("spectra", steps, {**row, "measured_step": np.full(len(tensors), steps)})
    writer.flush()
    if status is not None:
        writer.close(status)
