from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.lora.modules import LinearModule, ModulePlan, Plan, minimal_targets, peft_config, uniform

SEGMENTS = st.sampled_from(["a", "b", "q_proj", "proj", "0", "1", "10"])
NAMES = st.lists(st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join), min_size=1, max_size=20, unique=True)


def peft_matches(targets: list[str], name: str) -> bool:
    """PEFT's rule for a list of targets."""
    return name in targets or any(name.endswith(f".{target}") for target in targets)


@given(NAMES, st.data())
def test_targets_match_the_planned_modules_and_no_other(names, data) -> None:
    planned = data.draw(st.sets(st.sampled_from(names), min_size=1))
    targets = minimal_targets(planned, names)
    matched = {name for name in names if peft_matches(targets, name)}
    # A module's full name may itself be the ending of another's: no list of endings can tell such two apart, and then
    # the dry run refuses the config.
    ambiguous = any(o.endswith(f".{p}") for p in planned for o in names if o not in planned)
    assert matched >= planned
    assert ambiguous or matched == planned


def test_targets_are_the_shortest_endings() -> None:
    names = [f"model.layers.{i}.self_attn.{m}" for i in range(12) for m in ("q_proj", "k_proj")]
    assert minimal_targets(names, names) == ["k_proj", "q_proj"]
    only_last = [name for name in names if ".11." in name]
    assert minimal_targets(only_last, names) == ["layers.11.self_attn.k_proj", "layers.11.self_attn.q_proj"]
    # Layer 1 must not drag layer 11 along.
    first = minimal_targets(["model.layers.1.self_attn.q_proj"], names)
    assert not peft_matches(first, "model.layers.11.self_attn.q_proj")


def test_adapter_sizes() -> None:
    module = LinearModule("model.layers.3.mlp.up_proj", 64, 96)
    assert module.adapter_parameters(16, "lora") == 16 * (64 + 96)
    assert module.adapter_parameters(16, "rslora") == 16 * (64 + 96)
    assert module.adapter_parameters(16, "dora") == 16 * (64 + 96) + 96
    assert module.leaf == "up_proj"


def test_published_adapter_sizes_of_qwen3() -> None:
    # Counts of a public reproduction for rank 64: Qwen3-0.6B has 28 layers, width 1024, 16 query and 8 key/value heads
    # of 128, MLP 3072.
    shapes = {"q": (1024, 2048), "k": (1024, 1024), "v": (1024, 1024), "o": (2048, 1024)}
    shapes |= {"gate": (1024, 3072), "up": (1024, 3072), "down": (3072, 1024)}

    def millions(names: str) -> float:
        sizes = (LinearModule(n, *shapes[n]).adapter_parameters(64, "lora") for n in names.split())
        return round(28 * sum(sizes) / 1e6, 2)

    assert millions("q k v") == 12.85
    assert millions("gate up down") == 22.02
    assert millions("down up v") == 18.35
    assert millions("q k v o gate up down") == 40.37


def test_a_uniform_plan_needs_no_patterns() -> None:
    modules = [LinearModule(f"h.{i}.fc", 8, 8) for i in range(3)]
    config = peft_config(uniform(modules, 16, 32, "lora"), [m.name for m in modules], "base", None)
    assert config["target_modules"] == ["fc"]
    assert "rank_pattern" not in config
    assert "alpha_pattern" not in config
    assert (config["r"], config["lora_alpha"]) == (16, 32)


def test_exceptions_are_full_escaped_names() -> None:
    names = [f"model.layers.{i}.q_proj" for i in range(12)]
    plan = Plan(tuple(ModulePlan(name, 32 if name.endswith("layers.1.q_proj") else 16, 32) for name in names), "lora")
    pattern = peft_config(plan, names, None, None)["rank_pattern"]
    assert pattern == {r"^model\.layers\.1\.q_proj": 32}
    (key,) = pattern
    matches = [name for name in names if re.match(rf"(.*\.)?({key})$", name)]
    assert matches == ["model.layers.1.q_proj"]
    assert plan.rank == 16
    assert plan.max_rank == 32


@pytest.mark.parametrize("method", ["lora", "rslora", "dora"])
def test_method_flags(method) -> None:
    config = peft_config(uniform([LinearModule("fc", 8, 8)], 4, 32, method), ["fc"], None, None)
    assert (config["use_rslora"], config["use_dora"]) == (method == "rslora", method == "dora")
