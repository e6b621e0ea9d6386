"""Stacks of experts in the spectra: every expert a matrix of its own, one row that carries the aggregate (A44)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.spectra.ranks import effective_rank, stable_rank

EXPERTS = 4
STACKS = {f"model.layers.{layer}.mlp.experts.{name}" for layer in (0, 1) for name in ("gate_up_proj", "down_proj")}


def moe(family: str):
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](
        vocab_size=19,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=EXPERTS,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    return AutoModelForCausalLM.from_config(config)


def aggregate(delta: torch.Tensor) -> tuple[float, float, np.ndarray]:
    """Return (effective rank, stable rank, singular values) of a stack, from svdvals of one expert after another."""
    values = [torch.linalg.svdvals(expert.double()).numpy() for expert in delta]
    weights = np.array([np.sum(v**2) for v in values])
    effective, stable = (sum(w * rank(v) for w, v in zip(weights, values, strict=True)) / weights.sum()
                         for rank in (effective_rank, stable_rank))  # fmt: skip
    return effective, stable, np.sqrt(sum(v**2 for v in values) / EXPERTS)


def check(run, name: str, delta: torch.Tensor) -> None:
    row = run.spectra.isel(row=-1).sel(tensor=name)
    effective, stable, values = aggregate(delta)
    assert float(row["effective_rank"]) == pytest.approx(effective, rel=1e-5)
    assert float(row["stable_rank"]) == pytest.approx(stable, rel=1e-5)
    kept = min(len(values), row.sizes["k"])
    np.testing.assert_allclose(row["singular_values"].values[:kept], values[:kept], rtol=1e-4, atol=1e-5 * values[0])
    norm = float(run.tensors["delta_norm"].isel(row=-1).sel(tensor=name))
    assert norm == pytest.approx(float(delta.double().norm()), rel=1e-5)
    assert float(np.sum(values**2)) * EXPERTS == pytest.approx(norm**2, rel=1e-4)
    assert int(row["matrices"]) == EXPERTS
    assert EXPERTS * int(row["rows"]) * int(row["cols"]) == delta.numel()


# gpt-oss stores (experts, in, out): the spectrum does not care.
@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_full_fine_tuning(family, tmp_path: Path, make_trainer, watcher):
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full"))
    trainer = make_trainer(model=moe(family), callbacks=[watcher, recorder], max_steps=2, learning_rate=1e-2)
    trainer.train()
    run = open_run(tmp_path / "run")
    assert [event for event in run.events if "fault" in event["what"]] == []
    for name in STACKS:
        check(run, name, watcher.after[-1][name].double() - watcher.start[name].double())
    (left_out,) = [entry for entry in run.manifest.recorder["skipped"] if "router" in entry["what"]]
    assert left_out["what"] == "spectra of 2 router tensors"


def test_adapted_experts(tmp_path: Path, make_trainer):
    targets = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
    trainer = make_trainer(
        model=moe("qwen3_moe"),
        callbacks=[Recorder(tmp_path / "run", RecordConfig(preset="full"))],
        max_steps=2,
        learning_rate=1e-2,
        peft_config=LoraConfig(r=2, lora_alpha=6, target_parameters=targets, target_modules=[], task_type="CAUSAL_LM"),
    )
    trainer.train()
    run = open_run(tmp_path / "run")
    assert [event for event in run.events if "fault" in event["what"]] == []
    blocks = trainer.model.base_model.model.model.layers
    wrappers = [module for module in trainer.model.modules() if hasattr(module, "get_delta_weight")]
    assert len(wrappers) == len(STACKS)
    for module in wrappers:
        base = module.get_base_layer()
        (layer,) = [i for i, block in enumerate(blocks) if block.mlp.experts.get_base_layer() is base]
        # B starts at zero: what PEFT would merge now is the whole displacement.
        with torch.no_grad():
            delta = module.get_delta_weight("default").double()
        check(run, f"model.layers.{layer}.mlp.experts.{module.parameter_name}", delta)
