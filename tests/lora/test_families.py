"""Every decoder family that the recorder knows by name: the advised config resolves in PEFT as planned, and merges.

The families and their tiny configs are those of tests/naming/test_architectures.py.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from grpodyn.errors import AdviceError, UsageError
from grpodyn.lora import dry_run, policy, proof, twin
from grpodyn.lora.modules import LinearModule, layer_of, peft_config, uniform
from grpodyn.lora.policy import Options

NAMING = Path(__file__).parents[1] / "naming"
BASE = ("base", None)


def load(file: Path) -> Any:
    name = f"naming_{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


FAMILIES = {f.name: f for f in load(NAMING / "test_architectures.py").FAMILIES if "text_config" not in f.sizes}
# Of every kind of trouble one in the everyday tests, all of them in the full run.
DAILY = ("llama", "phi3", "gpt2", "deepseek_v3", "mamba")
CASES = [pytest.param(name, marks=() if name in DAILY else (pytest.mark.slow,)) for name in FAMILIES]


@cache
def twin_of(name: str) -> twin.Twin:
    family = FAMILIES[name]
    model_type = family.model_type or family.name
    sizes = {**load(NAMING / "conftest.py").SIZES, **family.sizes}
    config = CONFIG_MAPPING[model_type](**{key: value for key, value in sizes.items() if value is not None})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return twin.build({"class": None, "config": config.to_dict()})


def everything(linear: tuple[LinearModule, ...]) -> policy.Choice:
    return policy.choose(linear, Options())


@pytest.mark.parametrize("name", CASES)
def test_the_default_is_proven_or_its_limits_are_said(name: str) -> None:
    model = twin_of(name)
    proven = proof.prove(model, everything, BASE)
    resolved, plan = proven.resolved, proven.choice.plan
    # Each emitted name matches, rank and alpha are as planned on every module, nothing else is adapted.
    assert dry_run.differences(plan, resolved) == []
    assert all(any(m == t or m.endswith(f".{t}") for m in plan.names) for t in resolved.saved["target_modules"])
    assert {(m.rank, m.alpha) for m in plan.modules} == {(16, 32)}
    assert resolved.trainable == proven.choice.parameters
    # Heads and tied embeddings stay out, as do routers and what PEFT refuses.
    head = model.model.get_output_embeddings()
    left_out = {module for module, _ in model.left_out}
    for module_name, module in model.model.named_modules():
        if module is head or module is model.model.get_input_embeddings() or module_name in left_out:
            assert module_name not in plan.names
    if len(proven.reachable) < len(model.linear):
        assert proven.unreachable


@pytest.mark.parametrize("name", CASES)
def test_one_layer_alone_is_proven(name: str) -> None:
    """A placement in one layer, by `layers_to_transform` where PEFT can tell layers so, else by full names."""
    model = twin_of(name)
    reachable = proof.prove(model, everything, BASE).reachable
    layers = list(dict.fromkeys(layer_of(m.name) for m in reachable))
    assert layers
    inside = [m for m in reachable if layer_of(m.name) == layers[-1]]
    plan = uniform(inside, 8, 32, "lora")
    resolved = dry_run.resolve(proof.saved(model, plan, BASE), model)
    dry_run.check(plan, resolved)
    assert resolved.trainable == sum(m.adapter_parameters(8, "lora") for m in inside)


@pytest.mark.parametrize("name", [n for n in FAMILIES if "mamba" in n or n in ("falcon_h1", "nemotron_h", "zamba2")])
def test_out_proj_of_mamba_is_never_adapted_where_peft_refuses_it(name: str) -> None:
    model = twin_of(name)
    if model.model_type in twin.MAMBA_TYPES:
        assert not any(m.leaf in twin.MAMBA_REFUSED for m in model.linear)
        assert any(module.endswith("out_proj") for module, _ in model.left_out)


def test_all_families_of_the_name_table_are_here() -> None:
    types = {f.model_type or f.name for f in FAMILIES.values()}
    table = """qwen2 qwen3 llama mistral granite smollm3 gemma2 gemma3_text gemma4_text phi phi3 glm glm4 olmo2 olmo3
        gpt2 gpt_neox falcon starcoder2 mixtral qwen3_moe olmoe qwen2_moe qwen3_next qwen3_5_text deepseek_v2
        deepseek_v3 glm4_moe granitemoe granitemoehybrid gpt_oss llama4_text mamba mamba2 falcon_mamba jamba falcon_h1
        lfm2 lfm2_moe"""
    assert set(table.split()) <= types


# DBRX lays the matrices of its experts under one another in one matrix, which PEFT takes for a single one.
MOE = [name for name in FAMILIES if "expert" in str(FAMILIES[name].sizes) and name != "dbrx"]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("qwen3_moe", "gpt_oss") else (pytest.mark.slow,)) for n in MOE]
)
def test_stacked_experts_on_request_are_proven_too(name: str) -> None:
    model = twin_of(name)
    assert model.experts
    proven = proof.prove(model, lambda linear: policy.choose(linear, Options(experts=True)), BASE, experts=True)
    plan, resolved = proven.choice.plan, proven.resolved
    assert dry_run.differences(plan, resolved) == []
    assert set(resolved.parameters) == {m.name for m in model.experts}
    assert set(resolved.parameters.values()) == {(16, 32)}
    assert resolved.trainable == proven.choice.parameters
    without = proof.prove(model, everything, BASE).resolved
    assert resolved.coverage > without.coverage


def test_one_layers_experts_are_named_in_full() -> None:
    model = twin_of("qwen3_moe")
    inside = [m for m in (*model.linear, *model.experts) if layer_of(m.name) == "model.layers.1"]
    plan = uniform(inside, 8, 32, "lora")
    resolved = dry_run.resolve(proof.saved(model, plan, BASE), model)
    dry_run.check(plan, resolved)
    assert set(resolved.parameters) == {f"model.layers.1.mlp.experts.{n}" for n in ("gate_up_proj", "down_proj")}
    # Another rank of one of them is seen, by its parameter's name (A44, A47).
    changed = {**resolved.saved, "rank_pattern": {"gate_up_proj": 4}}
    with pytest.raises(AdviceError, match=r"gate_up_proj: planned rank 8 alpha 32, PEFT gives rank 4"):
        dry_run.check(plan, dry_run.resolve(changed, model))


def test_dora_and_experts_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="no DoRA for stacked experts"):
        Options(experts=True, method="dora")


# Save → load → merge, on real weights.

ROUND_TRIPS = ["llama", "gpt2", "gemma2", "phi3", "qwen3_moe", "jamba", "lfm2"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PEFT and transformers, about tiny models and their own names
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("llama", "gpt2") else (pytest.mark.slow,)) for n in ROUND_TRIPS]
)
def test_save_load_and_merge_are_a_round_trip(name: str, tmp_path: Path) -> None:
    model = twin_of(name)
    saved = proof.prove(model, everything, BASE).resolved.saved
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        base = AutoModelForCausalLM.from_config(model.model.config).eval()
        config = LoraConfig(**{k: saved[k] for k in ("r", "lora_alpha", "target_modules", "task_type")})
        adapted = get_peft_model(copy.deepcopy(base), config).eval()
        with torch.no_grad():
            for parameter_name, parameter in adapted.named_parameters():
                if "lora_B" in parameter_name:
                    parameter.normal_(0.0, 0.05)
    ids = torch.arange(3, 11)[None]
    with torch.no_grad():
        before = adapted(input_ids=ids, use_cache=False).logits
        plain = base(input_ids=ids, use_cache=False).logits
    assert not torch.allclose(before, plain, atol=1e-4)
    adapted.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(copy.deepcopy(base), tmp_path).eval()
    merged = loaded.merge_and_unload()
    with torch.no_grad():
        after = merged(input_ids=ids, use_cache=False).logits
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)
    assert not any("lora" in n for n, _ in merged.named_parameters())


# The traps of stacked experts.


def test_experts_by_target_parameters_are_more_than_planned_and_refused() -> None:
    model = twin_of("qwen3_moe")
    plan = proof.prove(model, everything, BASE).choice.plan
    config = {**peft_config(plan, model.module_names, *BASE), "target_parameters": ["mlp.experts.gate_up_proj"]}
    resolved = dry_run.resolve(dry_run.saved_config(config), model)
    assert any(name.endswith("experts.gate_up_proj") for name in resolved.parameters)
    with pytest.raises(AdviceError, match=r"experts\.gate_up_proj: not planned, PEFT adapts this parameter"):
        dry_run.check(plan, resolved)


@pytest.mark.parametrize("name", ["qwen3_moe", "mixtral"])
def test_a_gate_without_its_up_raises_in_peft_and_is_said(name: str) -> None:
    # A44: on these families PEFT rewrites the names of dense projections to the stacked experts.
    model = twin_of(name)
    targets = ["w1"] if name == "mixtral" else ["gate_proj"]
    config = {"r": 4, "lora_alpha": 8, "target_modules": targets, "task_type": "CAUSAL_LM"}
    with pytest.raises(AdviceError, match="PEFT refuses the config"):
        dry_run.resolve(dry_run.saved_config(config), model)


def test_layers_to_transform_does_not_restrict_experts() -> None:
    # PEFT leaves `target_parameters` on every layer whatever indices are asked for: the proof must see that.
    model = twin_of("qwen3_moe")
    inside = [m for m in model.linear if layer_of(m.name) == "model.layers.1"]
    plan = uniform(inside, 8, 32, "lora")
    config = {**proof.saved(model, plan, BASE), "target_parameters": ["mlp.experts.down_proj"]}
    assert config["layers_to_transform"] == [1]
    resolved = dry_run.resolve(dry_run.saved_config(config), model)
    assert len([name for name in resolved.parameters if name.endswith("down_proj")]) == 4
    with pytest.raises(AdviceError, match="in 4 places"):
        dry_run.check(plan, resolved)


@pytest.mark.parametrize("indices", [[1, 9], [9]])
def test_layers_out_of_range_are_caught(indices: list[int]) -> None:
    # A40: PEFT ignores an index that no layer has, as long as another matches.
    model = twin_of("llama")
    inside = [m for m in model.linear if layer_of(m.name) in {f"model.layers.{i}" for i in (1, 2)}]
    plan = uniform(inside, 8, 32, "lora")
    config = {**peft_config(plan, model.module_names, *BASE), "layers_to_transform": indices}
    with pytest.raises(AdviceError):
        dry_run.check(plan, dry_run.resolve(dry_run.saved_config(config), model))


def test_a_head_beside_layers_to_transform_stays_adapted_and_is_caught() -> None:
    model = twin_of("llama")
    inside = [m for m in model.linear if layer_of(m.name) == "model.layers.1"]
    plan = uniform(inside, 8, 32, "lora")
    config = peft_config(plan, model.module_names, *BASE)
    targets = [*config["target_modules"], "lm_head"]
    with pytest.raises(AdviceError, match="lm_head: planned no adapter"):
        dry_run.check(plan, dry_run.resolve(dry_run.saved_config({**config, "target_modules": targets}), model))


def test_a_bare_decoder_gets_names_instead_of_indices() -> None:
    # A40: without a prefix before the list of layers, PEFT finds no index in a name.
    names = [f"layers.{i}.mlp.{leaf}" for i in range(12) for leaf in ("up_proj", "down_proj")]
    plan = uniform([LinearModule(n, 4, 4) for n in names if n.startswith("layers.1.")], 8, 32, "lora")
    config = peft_config(plan, names, *BASE)
    assert "layers_to_transform" not in config
    assert config["target_modules"] == ["layers.1.mlp.down_proj", "layers.1.mlp.up_proj"]


def test_indices_are_used_where_they_tell_it_and_survive_the_json(tmp_path: Path) -> None:
    model = twin_of("llama")
    inside = [m for m in model.linear if layer_of(m.name) in {"model.layers.1", "model.layers.3"}]
    saved = proof.saved(model, uniform(inside, 8, 32, "lora"), BASE)
    assert saved["layers_to_transform"] == [1, 3]
    assert len(saved["target_modules"]) == 7
    assert json.loads(json.dumps(saved)) == saved
