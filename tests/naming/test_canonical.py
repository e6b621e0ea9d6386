from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.naming.canonical import canonical_name

BARE = "model.layers.0.self_attn.q_proj.weight"
WRAPPERS = ["module", "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "base_layer"]


@pytest.mark.parametrize(
    ("live", "canonical"),
    [
        (BARE, BARE),
        (f"module._orig_mod.{BARE}", BARE),
        (f"_orig_mod.module.{BARE}", BARE),
        ("model.layers.0._orig_mod.self_attn.q_proj.weight", BARE),
        ("model.layers.0._checkpoint_wrapped_module.self_attn.q_proj.weight", BARE),
        ("_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.self_attn.q_proj.weight", BARE),
        ("base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight", BARE),
        ("module.base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight", BARE),
        ("base_model.model.model.layers.0.mlp.experts.base_layer.base_layer.down_proj",
         "model.layers.0.mlp.experts.down_proj"),
        ("base_model.model.lm_head.modules_to_save.default.weight", "lm_head.weight"),
        ("base_model.model.lm_head.original_module.weight", "lm_head.weight"),
        ("model.language_model.layers.3.mlp.up_proj.weight", "model.language_model.layers.3.mlp.up_proj.weight"),
    ],
)  # fmt: skip
def test_wrappers_are_stripped_wherever_they_stand(live, canonical):
    assert canonical_name(live) == canonical


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(WRAPPERS)), max_size=6))
def test_any_wrapping_in_any_order_leaves_the_same_name(insertions):
    segments = BARE.split(".")
    for place, wrapper in insertions:
        segments.insert(place, wrapper)
    assert canonical_name(".".join(segments)) == BARE


@given(st.sampled_from([BARE, f"module.{BARE}", "base_model.model.lm_head.modules_to_save.default.weight"]))
def test_a_canonical_name_is_its_own(live):
    assert canonical_name(canonical_name(live)) == canonical_name(live)
