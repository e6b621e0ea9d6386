"""Experts as matrices, and what PEFT really adapts of them (A44)."""

from __future__ import annotations

import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from grpodyn.naming.inventory import take_inventory
from grpodyn.naming.matrices import matrices_of

SIZES = {
    "num_hidden_layers": 2,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
DEEPSEEK = {
    **SIZES, "n_routed_experts": 4, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip


def adapted(model: nn.Module, **config) -> nn.Module:
    with warnings.catch_warnings():
        # PEFT warns that the rank pattern it inserted itself is ignored; it is not.
        warnings.simplefilter("ignore")
        return get_peft_model(model, LoraConfig(**config))


# Stored (E, out, in), (E, in, out) as the class says, and (E, in, out) as only the shapes say.
@pytest.mark.parametrize(
    ("family", "block", "more"),
    [("mixtral", "mlp", {}), ("gpt_oss", "mlp", {}), ("llama4_text", "feed_forward", {"interleave_moe_layer_step": 1})],
)
@pytest.mark.parametrize("rslora", [False, True])
def test_the_change_of_every_expert_is_what_peft_would_merge(family, block, more, rslora, tiny):
    """delta[e] = scale · B[:, :, e] A[e], with A flattened experts first and B experts last."""
    model = adapted(
        tiny(family, **SIZES, **more),
        r=2,
        lora_alpha=6,
        use_rslora=rslora,
        target_modules=[],
        target_parameters=[f"{block}.experts.gate_up_proj", f"{block}.experts.down_proj"],
    )
    inventory = take_inventory(model)
    assert len(inventory.effective) == 4
    for entry in inventory.effective:
        (adapter,) = entry.adapters
        with torch.no_grad():
            adapter.b.normal_()
            merged = adapter.layer.get_delta_weight("default").double()
        thin = adapter.change(adapter.b, adapter.a, torch.zeros_like(adapter.b), adapter.a)
        dense = thin.left @ thin.right
        # A transposed stack has the same spectra, expert by expert.
        dense = dense if dense.shape == merged.shape else dense.mT
        torch.testing.assert_close(dense, merged, rtol=1e-5, atol=1e-6)
        assert (entry.info.matrices, entry.info.rows, entry.info.cols) == tuple(merged.shape)
        assert entry.info.kind == "expert"


def test_a44_peft_rewrites_list_targets_and_the_rows_say_what_was_adapted(tiny):
    """A44: on Qwen3-MoE `gate_proj up_proj down_proj` lands on the experts' stacks, gate_up with twice the rank."""
    model = adapted(tiny("qwen3_moe", **SIZES), r=4, target_modules=["gate_proj", "up_proj", "down_proj"])
    inventory = take_inventory(model)
    ranks = {}
    for entry in inventory.effective:
        (adapter,) = entry.adapters
        ranks[entry.info.name] = adapter.a.shape[0] // adapter.experts
        assert entry.info.kind == "expert"
    layers = [f"model.layers.{i}.mlp.experts" for i in (0, 1)]
    assert ranks == {f"{layer}.gate_up_proj": 8 for layer in layers} | {f"{layer}.down_proj": 4 for layer in layers}


def test_a44_a_target_for_the_dense_mlp_lands_on_the_routed_experts(tiny):
    """A44: on DeepSeek the request for `down_proj` adapts neither the dense first layer nor the shared experts."""
    model = adapted(tiny("deepseek_v3", **DEEPSEEK), r=2, target_modules=["gate_proj", "up_proj", "down_proj"])
    names = {info.name for info in take_inventory(model).infos if info.source == "lora"}
    assert names == {"model.layers.1.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj"}


def test_experts_that_are_modules_of_their_own(tiny):
    """As transformers 4 had them: each expert is a row, and each is an expert, not a layer."""
    model = tiny("llama", num_hidden_layers=2)
    for layer in model.model.layers:
        layer.mlp.gate = nn.Linear(64, 3, bias=False)
        layer.mlp.experts = nn.ModuleList(nn.ModuleDict({"w1": nn.Linear(64, 8, bias=False)}) for _ in range(3))
    rows = {info.name: info for info in take_inventory(model).infos}
    row = rows["model.layers.1.mlp.experts.2.w1.weight"]
    assert (row.layer, row.stack, row.module, row.kind) == (1, "model.layers", "w1", "expert")
    assert (row.matrices, row.rows, row.cols, row.layout) == (1, 8, 64, "out_in")
    assert rows["model.layers.1.mlp.gate.weight"].kind == "router"


@pytest.mark.parametrize(("hidden", "inner"), [(8, 3), (6, 3), (3, 3)])
@pytest.mark.parametrize("layout", ["out_in", "in_out"])
def test_shapes_alone_tell_which_way_round_experts_are_stored(hidden, inner, layout):
    owner = nn.Module()
    shapes = {"gate_up_proj": (2, 2 * inner, hidden), "down_proj": (2, hidden, inner)}
    for name, (count, out, into) in shapes.items():
        shape = (count, out, into) if layout == "out_in" else (count, into, out)
        owner.register_parameter(name, nn.Parameter(torch.empty(shape)))
    for name in shapes:
        assert matrices_of(owner, name, tuple(getattr(owner, name).shape), "expert").layout == layout


def test_a_stack_that_nothing_explains_has_no_layout():
    owner = nn.Module()
    owner.register_parameter("w1", nn.Parameter(torch.empty(2, 3, 4)))
    found = matrices_of(owner, "w1", (2, 3, 4), "expert")
    assert (found.count, found.rows, found.cols, found.layout) == (2, 3, 4, "")
