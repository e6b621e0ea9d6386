from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftConfig, get_peft_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from grpodyn.errors import AdviceError
from grpodyn.lora import dry_run, twin
from grpodyn.lora.modules import Plan, peft_config, uniform

# PEFT 0.21.2 asks transformers 5.24 under a name that it has deprecated.

SIZES: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SEVEN = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj"}

# model type, extra config, leaf names of the linear modules, share of the blocks' weights that they hold
FAMILIES = [
    ("qwen2", {}, SEVEN, 1.0),
    ("qwen3", {}, SEVEN, 1.0),
    ("llama", {}, SEVEN, 1.0),
    ("mistral", {}, SEVEN, 1.0),
    ("smollm3", {}, SEVEN, 1.0),
    ("olmo2", {}, SEVEN, 1.0),
    ("gemma2", {}, SEVEN, 1.0),
    ("gemma3_text", {}, SEVEN, 1.0),
    ("phi3", {}, {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}, 1.0),
    ("glm4", {}, {*ATTENTION, "gate_up_proj", "down_proj"}, 1.0),
    ("gpt2", GPT2, {"c_attn", "c_fc", "c_proj"}, 1.0),
    ("gpt_neox", {}, {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}, 1.0),
    ("lfm2", {"full_attn_idxs": [1, 3]}, {"in_proj", "out_proj", "q_proj", "k_proj", "v_proj", "w1", "w2", "w3"}, 1.0),
    ("mixtral", {"num_local_experts": 4}, ATTENTION, 0.14),
    ("qwen3_moe", MOE, ATTENTION, 0.33),
    ("mamba", {"state_size": 8}, {"in_proj"}, 0.56),
    ("mamba2", {"num_heads": 8, "state_size": 8, "n_groups": 1}, {"in_proj"}, 0.67),
]


def build(model_type: str, extra: dict[str, Any]) -> twin.Twin:
    config = CONFIG_MAPPING[model_type](**{**SIZES, **extra}).to_dict()
    return twin.build({"class": None, "config": config})


def resolved(plan: Plan, model: twin.Twin, **changes: Any) -> dry_run.Resolved:
    config = {**peft_config(plan, model.module_names, "base", None), **changes}
    return dry_run.resolve(dry_run.saved_config(config), model)


@pytest.mark.parametrize(("model_type", "extra", "leaves", "share"), FAMILIES, ids=[f[0] for f in FAMILIES])
def test_every_family_resolves_as_planned(model_type, extra, leaves, share) -> None:
    model = build(model_type, extra)
    plan = uniform(model.linear, 16, 32, "lora")
    result = resolved(plan, model)
    dry_run.check(plan, result)
    assert {module.leaf for module in model.linear} == leaves
    assert result.trainable == sum(module.adapter_parameters(16, "lora") for module in model.linear)
    assert result.coverage == pytest.approx(share, abs=0.01)
    assert len(result.layer_coverage) == 4
    # No weights are allocated, whatever the model's size.
    assert {parameter.device.type for parameter in model.model.parameters()} == {"meta"}


@pytest.mark.parametrize("model_type", ["gemma2", "gpt2", "qwen3"])
def test_heads_and_tied_embeddings_stay_out(model_type) -> None:
    model = build(model_type, GPT2 if model_type == "gpt2" else {})
    tied = model.model.get_output_embeddings().weight is model.model.get_input_embeddings().weight
    assert tied == (model_type != "qwen3")
    assert ("lm_head", twin.HEAD_REASON) in model.left_out
    assert not any(name.endswith(("lm_head", "embed_tokens", "wte")) for name in (m.name for m in model.linear))


@pytest.mark.parametrize("method", ["lora", "rslora", "dora"])
def test_methods_count_as_peft_counts(method) -> None:
    model = build("qwen3", {})
    plan = uniform(model.linear, 8, 32, method)
    result = resolved(plan, model)
    dry_run.check(plan, result)
    assert result.trainable == sum(module.adapter_parameters(8, method) for module in model.linear)


@pytest.mark.parametrize("model_type", ["qwen3", "gpt2"])
def test_the_meta_twin_counts_what_a_real_model_trains(model_type) -> None:
    extra = GPT2 if model_type == "gpt2" else {}
    model = build(model_type, extra)
    saved = resolved(uniform(model.linear, 16, 32, "lora"), model).saved
    real = AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**{**SIZES, **extra}))
    config = LoraConfig(**{key: saved[key] for key in ("r", "lora_alpha", "target_modules", "task_type")})
    config.fan_in_fan_out = model_type == "gpt2"
    trained = sum(p.numel() for p in get_peft_model(real, config).parameters() if p.requires_grad)
    assert trained == sum(module.adapter_parameters(16, "lora") for module in model.linear)


def test_uneven_ranks_are_read_back() -> None:
    model = build("llama", {"num_hidden_layers": 12})
    even = uniform(model.linear, 16, 32, "lora")
    plan = replace(even, modules=tuple(replace(m, rank=8) if ".layers.1." in m.name else m for m in even.modules))
    result = resolved(plan, model)
    dry_run.check(plan, result)
    assert {
        name: rank for name, (rank, _) in result.ranks.items() if ".layers.1." in name or ".layers.11." in name
    } == {
        m.name: 8 if ".layers.1." in m.name else 16
        for m in plan.modules
        if ".layers.1" in m.name and ".layers.10" not in m.name
    }


@pytest.mark.parametrize(
    "key",
    [
        "layers.1",
        r"base_model\.model\.model\.layers\.1\.self_attn\.q_proj",
        r"model\.layers\.1\.self_attn\.q_proj\.weight",
        r"_orig_mod\.model\.layers\.1\.self_attn\.q_proj",
        r"layers.1.*q_proj",
    ],
)
def test_rank_patterns_that_peft_ignores_or_widens_are_caught(key) -> None:
    # The first four match nothing and are dropped with a warning at most; the last also hits layers 10 and 11.
    model = build("llama", {"num_hidden_layers": 12})
    even = uniform(model.linear, 16, 32, "lora")
    wanted = "model.layers.1.self_attn.q_proj"
    plan = replace(even, modules=tuple(replace(m, rank=8) if m.name == wanted else m for m in even.modules))
    result = resolved(plan, model, rank_pattern={key: 8})
    with pytest.raises(AdviceError, match="differently from the plan"):
        dry_run.check(plan, result)


def test_a_misspelt_target_is_caught_though_another_matches() -> None:
    model = build("llama", {})
    plan = uniform([m for m in model.linear if m.leaf in ("q_proj", "v_proj")], 16, 32, "lora")
    result = resolved(plan, model, target_modules=["q_proj", "vproj"])
    with pytest.raises(AdviceError, match=r"in 4 places(.|\n)*v_proj: planned rank 16 alpha 32, PEFT gives no adapter"):
        dry_run.check(plan, result)


def test_an_adapter_too_many_is_an_error() -> None:
    model = build("llama", {})
    plan = uniform([m for m in model.linear if m.leaf == "q_proj"], 16, 32, "lora")
    with pytest.raises(AdviceError, match="k_proj: planned no adapter, PEFT gives rank 16 alpha 32"):
        dry_run.check(plan, resolved(plan, model, target_modules=["q_proj", "k_proj"]))
    with pytest.raises(AdviceError, match="lm_head: planned no adapter"):
        dry_run.check(plan, resolved(plan, model, target_modules=["q_proj", "lm_head"]))


def test_wrong_alpha_is_an_error() -> None:
    model = build("llama", {})
    plan = uniform(model.linear, 16, 32, "lora")
    with pytest.raises(AdviceError, match="planned rank 16 alpha 32, PEFT gives rank 16 alpha 8"):
        dry_run.check(plan, resolved(plan, model, lora_alpha=8))


def test_an_adapted_parameter_that_was_not_planned_is_an_error() -> None:
    plan = Plan((), "lora")
    with pytest.raises(AdviceError, match=r"mlp\.experts\.gate_up_proj: not planned, PEFT adapts this parameter"):
        dry_run.check(plan, dry_run.Resolved({}, {"mlp.experts.gate_up_proj": (4, 8.0)}, 0, {}, 0.0, {}))
    dry_run.check(plan, dry_run.Resolved({}, {}, 0, {}, 0.0, {}))


def test_targets_that_peft_rewrites_to_experts_are_caught() -> None:
    # On this family, `gate_proj` of a dense layer or a shared expert lands on the stacked routed experts.
    extra = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16}
    extra |= {"n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "n_routed_experts": 4}
    model = build("deepseek_v3", {**extra, "num_experts_per_tok": 2, "moe_intermediate_size": 32})
    plan = uniform(model.linear, 16, 32, "lora")
    result = resolved(plan, model)
    assert any(name.endswith("experts.gate_up_proj") for name in result.parameters)
    with pytest.raises(AdviceError, match="differently from the plan"):
        dry_run.check(plan, result)


def test_peft_refuses_what_the_twin_keeps_out() -> None:
    model = build("mamba", {"state_size": 8})
    refused = {name.rsplit(".", 1)[-1]: why for name, why in model.left_out}
    assert "PEFT refuses out_proj on mamba" in refused["out_proj"]
    plan = uniform(model.linear, 16, 32, "lora")
    with pytest.raises(AdviceError, match="PEFT refuses the config on MambaForCausalLM"):
        resolved(plan, model, target_modules=["in_proj", "out_proj"])


def test_an_adapter_past_the_forward_would_be_dead() -> None:
    # Why `dt_proj` is kept out of mamba: PEFT accepts it, but its weight is read directly, so no gradient reaches it.
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING["mamba"](**{**SIZES, "state_size": 8}))
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=["in_proj", "dt_proj"]))
    adapted(input_ids=torch.arange(6)[None]).logits.sum().backward()
    gradients = {name: p.grad for name, p in adapted.named_parameters() if "lora_B" in name}
    assert all((gradient is None) == ("dt_proj" in name) for name, gradient in gradients.items())


def test_the_saved_json_loads_with_peft(tmp_path: Path) -> None:
    model = build("qwen3", {})
    saved = resolved(uniform(model.linear, 16, 32, "dora"), model).saved
    (tmp_path / "adapter_config.json").write_text(json.dumps(saved))
    for loader in (PeftConfig, LoraConfig):
        loaded = loader.from_pretrained(str(tmp_path))
        assert isinstance(loaded, LoraConfig)
        assert (loaded.r, loaded.lora_alpha, loaded.use_dora, set(loaded.target_modules)) == (16, 32, True, SEVEN)
    # As PEFT itself would save it, but for the order of a set.
    loaded.save_pretrained(str(tmp_path / "again"))
    again = json.loads((tmp_path / "again" / "adapter_config.json").read_text())
    assert {**again, "target_modules": sorted(again["target_modules"])} == saved


def test_the_saved_json_is_the_same_every_time() -> None:
    model = build("qwen3", {})
    config = peft_config(uniform(model.linear, 16, 32, "lora"), model.module_names, None, None)
    assert json.dumps(dry_run.saved_config(config)) == json.dumps(dry_run.saved_config(config))


def test_keys_that_peft_does_not_know_are_refused() -> None:
    with pytest.raises(AdviceError, match="PEFT does not accept"):
        dry_run.saved_config({"r": 16, "rnak": 8})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, "holds no usable model config"),
        ({"config": {"hidden_size": 8}}, "holds no usable model config"),
        ({"config": {"model_type": "no_such_model"}}, "does not know the model type 'no_such_model'"),
        ({"class": "Qwen3ForCausalLM", "config": {**SIZES, "model_type": "qwen3", "pad_token_id": 999}}, "meta device"),
        ({"class": "Qwen3ForCausalLM", "config": {**SIZES, "model_type": "qwen3", "rms_norm_eps": -1}}, "meta device"),
    ],
)
def test_a_model_that_cannot_be_built_is_an_error_that_says_why(model, message) -> None:
    with pytest.raises(AdviceError, match=message):
        twin.build(model)


def test_a_quantised_base_needs_no_quantiser() -> None:
    config = {**CONFIG_MAPPING["llama"](**SIZES).to_dict(), "quantization_config": {"quant_method": "bitsandbytes"}}
    assert len(twin.build({"class": "LlamaForCausalLM", "config": config}).linear) == 28
