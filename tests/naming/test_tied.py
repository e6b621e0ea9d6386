"""Tied tensors (A45), and classes whose prefix differs (A48)."""

from __future__ import annotations

import warnings

import pytest
from peft import LoraConfig, get_peft_model
from torch import nn

from grpodyn.naming.inventory import take_inventory


def adapted(model: nn.Module, **config) -> nn.Module:
    with warnings.catch_warnings():
        # PEFT warns of what adapting a tied head does; that is what is tested.
        warnings.simplefilter("ignore")
        return get_peft_model(model, LoraConfig(r=2, **config))


def ends(model: nn.Module) -> dict[str, tuple[str, str]]:
    """Return (kind, source) of what is measured outside the layers, without norms and factors."""
    infos = take_inventory(model).infos
    return {
        info.name: (info.kind, info.source) for info in infos if info.layer < 0 and info.kind in ("embedding", "head")
    }


def test_a45_a_tied_tensor_is_one_row_under_the_name_of_the_embedding(tiny):
    """A45."""
    assert ends(tiny("gemma2", num_hidden_layers=1)) == {"model.embed_tokens.weight": ("embedding", "full")}


def test_a45_a_saved_copy_of_a_tied_head_is_a_row_of_its_own(tiny):
    """A45: `modules_to_save` unties; the copy trains, the embedding does not."""
    model = adapted(tiny("gemma2", num_hidden_layers=1), target_modules=["q_proj"], modules_to_save=["lm_head"])
    assert ends(model) == {"lm_head.weight": ("head", "full")}
    inventory = take_inventory(model)
    (entry,) = [entry for entry in inventory.stored if entry.info.kind == "head"]
    tied = model.base_model.model.model.embed_tokens.weight
    assert entry.parameter.data_ptr() != tied.data_ptr()
    assert not tied.requires_grad


def test_a45_a_tied_head_that_is_kept_tied_counts_once(tiny):
    """A45: with `ensure_weight_tying` both ends are one trained tensor."""
    model = adapted(
        tiny("gemma2", num_hidden_layers=1),
        target_modules=["q_proj"],
        modules_to_save=["embed_tokens"],
        ensure_weight_tying=True,
    )
    assert len(ends(model)) == 1
    (kind,) = ends(model).values()
    assert kind == ("embedding", "full")


def test_a45_an_adapter_on_a_tied_head_is_a_row_of_the_head(tiny):
    """A45: the adapter changes the head alone, whatever the weight under it is shared with."""
    model = adapted(tiny("gemma2", num_hidden_layers=1), target_modules=["q_proj", "lm_head"])
    assert ends(model) == {"lm_head.weight": ("head", "lora")}


@pytest.mark.parametrize(
    ("family", "vision"),
    [
        ("qwen2_5_vl", {"depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}),
    ],
)
def test_a48_a_multimodal_class_keeps_its_prefix(family, vision, tiny):
    """A48: an adapter of the text class says nothing about `language_model.`: names must not match by accident."""
    text = {info.name for info in take_inventory(tiny("qwen2", num_hidden_layers=2)).infos}
    sizes = {"head_dim": None, "num_hidden_layers": 2}
    infos = take_inventory(tiny(family, text_config=sizes, vision_config=vision)).infos
    layers = {info.name: info.stack for info in infos if info.layer >= 0}
    assert set(layers.values()) == {"model.language_model.layers", "model.visual.blocks"}
    assert not text & set(layers)
    # The same tensors, but for the prefix.
    decoder = {name.replace("model.language_model.", "model.") for name in layers if "language_model" in name}
    assert decoder == {name for name in text if ".layers." in name}
