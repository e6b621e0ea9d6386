"""`record.only` and `record.skip`: by layer, module type and pattern; what matches nothing is said."""

from __future__ import annotations

import fnmatch
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from grpodyn.errors import ConfigError
from grpodyn.naming.inventory import Inventory, take_inventory
from grpodyn.naming.selection import select
from grpodyn.recording.plan import map_layers

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def model() -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=19,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


@pytest.fixture(scope="module")
def full() -> Inventory:
    return take_inventory(model())


@pytest.fixture(scope="module")
def adapted() -> Inventory:
    config = LoraConfig(r=2, target_modules=["q_proj", "up_proj"], task_type="CAUSAL_LM")
    return take_inventory(get_peft_model(model(), config))


def names(inventory: Inventory) -> list[str]:
    return [info.name for info in inventory.infos]


def test_everything_is_kept_by_default(full):
    assert select(full, None, []) is full


def test_by_layer_module_type_and_pattern(full):
    assert set(names(select(full, [1], []))) == {n for n in names(full) if n.startswith("model.layers.1.")}
    kept = names(select(full, ["q_proj"], []))
    # The bias of a module is of its type.
    assert kept == [f"model.layers.{i}.self_attn.q_proj.{leaf}" for i in range(3) for leaf in ("weight", "bias")]
    assert names(select(full, ["model.layers.[02].mlp.*"], [])) == [
        f"model.layers.{i}.mlp.{m}.weight" for i in (0, 2) for m in ("gate_proj", "up_proj", "down_proj")
    ]
    assert names(select(full, ["model.norm.weight"], [])) == ["model.norm.weight"]


def test_skip_takes_from_what_only_leaves(full):
    kept = names(select(full, [0, "up_proj"], [2, "*.bias", "*norm*"]))
    expected = {n for n in names(full) if n.startswith("model.layers.0.") or n == "model.layers.1.mlp.up_proj.weight"}
    assert set(kept) == {n for n in expected if not n.endswith("bias") and "norm" not in n}
    assert kept == [n for n in names(full) if n in set(kept)], "the order of the model"


@given(
    only=st.none() | st.lists(st.integers(0, 2) | st.sampled_from([*LINEAR, "*bias*", "*.mlp.*"]), min_size=1),
    skip=st.lists(st.integers(0, 2) | st.sampled_from([*LINEAR, "*norm*"]), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_against_the_definition(full, only, skip):
    def matches(info, entry):
        return info.layer == entry or info.module == entry or fnmatch.fnmatchcase(info.name, str(entry))

    expected = [
        info.name
        for info in full.infos
        if (only is None or any(matches(info, e) for e in only)) and not any(matches(info, e) for e in skip)
    ]
    if expected:
        assert names(select(full, only, skip)) == expected
    else:
        with pytest.raises(ConfigError, match="leave none of 38 tensors"):
            select(full, only, skip)


@pytest.mark.parametrize(
    ("only", "skip"),
    [(["*.0.self_attn.q_proj.weight"], []), (["*.0.*.lora_A"], ["up_proj"]), ([0], ["*.up_proj.lora_B"])],
)
def test_an_adapted_weight_and_its_factors_stay_together(adapted, only, skip):
    stem = "model.layers.0.self_attn.q_proj"
    kept = names(select(adapted, only, skip))
    assert sorted(kept) == [f"{stem}.lora_A", f"{stem}.lora_B", f"{stem}.weight"]


def test_what_is_left_out_is_said_and_its_layer_is_not_whole(full):
    selected = select(full, None, ["q_proj", 2])
    said = {entry.what: entry.why for entry in selected.unmeasured}
    assert said["2 tensors of model.layers.0"] == "left out by record.only or record.skip"
    assert said["12 tensors of model.layers.2"] == "left out by record.only or record.skip"
    layers = map_layers(selected)
    assert (layers.layers, layers.complete.tolist()) == ([0, 1], [False, False])
    assert map_layers(select(full, [1], [])).complete.tolist() == [True]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("q_prj", "record.skip: 'q_prj' matches no tensor; did you mean 'q_proj'?"),
        (9, "record.skip: 9 matches no tensor (layers: 0 to 2)"),
        ("*.conv.*", "record.skip: '*.conv.*' matches no tensor"),
    ],
)
def test_what_matches_nothing_is_warned_of(full, caplog, entry, words):
    with caplog.at_level(logging.WARNING, logger="grpodyn"):
        selected = select(full, None, [entry])
    assert words in caplog.text
    assert names(selected) == names(full)
    assert words.startswith(selected.unmeasured[0].what)


def test_nothing_left_is_an_error(full):
    with pytest.raises(ConfigError, match="leave none of 38 tensors; name layers, module types"):
        select(full, ["nothing"], [])
