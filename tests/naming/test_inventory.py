"""Rows of the tensor axis on live models of several architectures, wrapped in several ways."""

from __future__ import annotations

import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from grpodyn.errors import NameCollisionError
from grpodyn.naming.inventory import sharding, take_inventory

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def build(family: str, **changes) -> nn.Module:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**{**SIZES, **changes}))


def adapted(model: nn.Module, **config) -> nn.Module:
    with warnings.catch_warnings():
        # PEFT's advice about tied weights and about ranks is not what is tested.
        warnings.simplefilter("ignore")
        return get_peft_model(model, LoraConfig(**config))


def by_name(model: nn.Module):
    return {info.name: info for info in take_inventory(model).infos}


def test_a_dense_decoder():
    rows = by_name(build("qwen2", tie_word_embeddings=True))
    q = rows["model.layers.1.self_attn.q_proj.weight"]
    assert (q.layer, q.module, q.stack, q.kind) == (1, "q_proj", "model.layers", "linear")
    assert (q.rows, q.cols, q.dtype, q.trainable, q.source) == (32, 32, "float32", True, "full")
    bias = rows["model.layers.1.self_attn.q_proj.bias"]
    assert (bias.kind, bias.module, bias.rows, bias.cols) == ("bias", "q_proj", 32, 1)
    assert rows["model.layers.0.input_layernorm.weight"].kind == "norm"
    assert rows["model.norm.weight"].layer == -1
    assert rows["model.norm.weight"].stack == ""
    assert rows["model.embed_tokens.weight"].kind == "embedding"
    assert "lm_head.weight" not in rows, "a tied tensor is one tensor (A45)"


def test_an_untied_head():
    rows = by_name(build("qwen3", tie_word_embeddings=False, head_dim=8))
    assert rows["lm_head.weight"].kind == "head"
    assert rows["model.layers.0.self_attn.q_norm.weight"].kind == "norm"


def test_tied_tensors_that_are_two_parameters_on_one_storage():
    model = build("llama", tie_word_embeddings=False)
    model.lm_head.weight = nn.Parameter(model.model.embed_tokens.weight.data)
    names = [name for name in by_name(model) if "embed" in name or "head" in name]
    assert names == ["model.embed_tokens.weight"]


def test_a_linear_layer_stored_in_by_out():
    rows = by_name(CONFIG_MODEL(CONFIG_MAPPING["gpt2"](vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=16)))
    attention = rows["transformer.h.1.attn.c_attn.weight"]
    assert (attention.kind, attention.rows, attention.cols, attention.layer) == ("linear", 32, 96, 1)
    assert attention.stack == "transformer.h"


CONFIG_MODEL = AutoModelForCausalLM.from_config


def test_experts_and_routers():
    rows = by_name(build("qwen3_moe", head_dim=8, **EXPERTS))
    experts = rows["model.layers.0.mlp.experts.gate_up_proj"]
    assert (experts.kind, experts.module, experts.matrices) == ("expert", "gate_up_proj", 4)
    assert (experts.rows, experts.cols, experts.layout) == (32, 32, "out_in")
    assert rows["model.layers.0.mlp.gate.weight"].kind == "router"


def test_state_space_parameters_are_no_linear_maps():
    rows = by_name(
        CONFIG_MODEL(CONFIG_MAPPING["mamba"](vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4))
    )
    kinds = {name.rsplit("mixer.", 1)[-1]: info.kind for name, info in rows.items() if "mixer" in name}
    assert kinds["A_log"] == kinds["D"] == "ssm"
    assert kinds["conv1d.weight"] == "conv"
    assert kinds["in_proj.weight"] == "linear"
    assert rows["backbone.layers.0.mixer.A_log"].module == "A_log"


def wrapped_by_compile(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")


def wrapped_inside(model: nn.Module) -> nn.Module:
    model.model.layers[0] = torch.compile(model.model.layers[0], backend="eager")
    return model


def wrapped_like_ddp(model: nn.Module) -> nn.Module:
    return nn.DataParallel(model)


def wrapped_twice(model: nn.Module) -> nn.Module:
    return nn.DataParallel(torch.compile(wrapped_inside(model), backend="eager"))


def wrapped_for_checkpointing(model: nn.Module) -> nn.Module:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper  # noqa: PLC0415

    model.model.layers[1] = checkpoint_wrapper(model.model.layers[1])
    return model


@pytest.mark.parametrize(
    "wrap", [wrapped_by_compile, wrapped_inside, wrapped_like_ddp, wrapped_twice, wrapped_for_checkpointing]
)
def test_a15_wrappers_change_no_row(wrap):
    """A15: prefixes nested in any order must not break the matching of names, layers or kinds."""
    bare = by_name(build("qwen2"))
    assert by_name(wrap(build("qwen2"))) == bare


def test_lora_rows_stand_beside_those_of_a_full_run():
    full = by_name(build("qwen2"))
    inventory = take_inventory(adapted(build("qwen2"), r=4, target_modules=["q_proj", "down_proj"]))
    rows = {info.name: info for info in inventory.infos}
    effective = [info for info in inventory.infos if info.source == "lora"]
    assert len(effective) == 4
    for info in effective:
        twin = full[info.name]
        assert (info.layer, info.module, info.stack, info.kind, info.rows, info.cols) == (
            twin.layer, twin.module, twin.stack, twin.kind, twin.rows, twin.cols,
        )  # fmt: skip
    a = rows["model.layers.0.mlp.down_proj.lora_A"]
    assert (a.kind, a.source, a.module, a.layer, a.rows, a.cols) == ("lora_factor", "factor", "down_proj", 0, 4, 48)
    assert set(rows) & set(full) == {info.name for info in effective}, "frozen weights have no row"
    assert len(inventory.frozen) == 2 * (12 - 2), "they count in their layer's size"


def test_adapted_embeddings_and_saved_modules():
    model = adapted(
        build("qwen3", head_dim=8, tie_word_embeddings=False),
        r=2,
        target_modules=["embed_tokens"],
        modules_to_save=["lm_head"],
    )
    rows = by_name(model)
    assert rows["model.embed_tokens.lora_A"].cols == 64
    assert (rows["model.embed_tokens.weight"].kind, rows["model.embed_tokens.weight"].rows) == ("embedding", 64)
    assert (rows["lm_head.weight"].kind, rows["lm_head.weight"].source) == ("head", "full")


def test_only_the_active_adapter_is_measured():
    """A19: TRL keeps a frozen copy of a trained adapter, `ref`, with its own copies of whole saved modules."""
    config = {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}
    model = adapted(build("qwen2", tie_word_embeddings=False), **config)
    model.add_adapter("ref", LoraConfig(**config))
    inventory = take_inventory(model)
    assert not [entry.live_name for entry in inventory.stored if ".ref." in entry.live_name]
    assert len(inventory.effective) == 2
    assert [info.name for info in inventory.infos if info.kind == "head"] == ["lm_head.weight"]


def test_adapters_on_experts_follow_pefts_own_delta():
    """Two parameters of one module are nested wrappers; B is flattened with the experts last, A with them first."""
    model = adapted(
        build("qwen3_moe", head_dim=8, **EXPERTS),
        r=2,
        lora_alpha=6,
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        target_modules=["q_proj"],
    )
    inventory = take_inventory(model)
    assert {entry.info.name for entry in inventory.effective} >= {
        "model.layers.0.mlp.experts.gate_up_proj",
        "model.layers.1.mlp.experts.down_proj",
    }
    for entry in inventory.effective:
        (adapter,) = entry.adapters
        with torch.no_grad():
            adapter.b.normal_()
            dense = adapter.layer.get_delta_weight("default").double()
        thin = adapter.change(adapter.b, adapter.a, torch.zeros_like(adapter.b), adapter.a)
        assert float(thin.squared_norm()) == pytest.approx(float(dense.square().sum()), rel=1e-6)
        assert entry.info.matrices * entry.info.rows * entry.info.cols == dense.numel()


def test_rslora_scales_by_the_root_of_the_rank():
    model = adapted(build("qwen2"), r=4, lora_alpha=8, use_rslora=True, target_modules=["q_proj"])
    assert take_inventory(model).effective[0].adapters[0].scale == 4.0


def test_a_dora_has_rows_of_its_dense_update_and_of_its_factors():
    inventory = take_inventory(adapted(build("qwen2"), r=4, use_dora=True, target_modules=["q_proj"]))
    assert [entry.is_dense for entry in inventory.effective] == [True, True]
    assert len([info for info in inventory.infos if info.source == "factor"]) == 6
    assert len([info for info in inventory.infos if "magnitude" in info.name]) == 2
    assert inventory.unmeasured == []


def test_an_adapter_that_is_no_plain_product_is_named_and_its_factors_still_measured():
    model = adapted(build("qwen2"), r=4, use_dora=True, target_modules=["embed_tokens"])
    inventory = take_inventory(model)
    assert inventory.effective == []
    assert len([info for info in inventory.infos if info.source == "factor"]) == 3
    assert ["DoraEmbeddingVariant" in entry.why for entry in inventory.unmeasured] == [True]


def test_names_that_collapse_are_an_error():
    model = nn.Module()
    model.add_module("a", nn.Linear(2, 2))
    model.add_module("module", nn.Module())
    model.module.add_module("a", nn.Linear(2, 2))
    with pytest.raises(NameCollisionError, match=r"'a\.weight' and 'module\.a\.weight' are both 'a\.weight'"):
        take_inventory(model)


@pytest.mark.parametrize(
    ("parameter", "name", "word"),
    [
        (nn.Parameter(torch.empty(0)), "fc.weight", "empty"),
        (nn.Parameter(torch.empty(4, device="meta")), "fc.weight", "meta"),
        (nn.Parameter(torch.zeros(400)), "_fsdp_wrapped_module.fc.weight", "FSDP"),
        (nn.Parameter(torch.zeros(400)), "layers.0._flat_param", "FSDP"),
        (nn.Parameter(torch.zeros(4, dtype=torch.complex64)), "fc.weight", "complex"),
    ],
)
def test_a14_shards_are_named_as_such(parameter, name, word):
    """A14: what is flattened, empty or elsewhere on this rank is no tensor whose norm means anything."""
    assert word in (sharding(parameter, name) or "")
    assert sharding(nn.Parameter(torch.zeros(2)), "fc.weight") is None


def test_a13_a_zero3_parameter_is_never_a_zero():
    """A13: its local tensor is empty, its shape lies elsewhere."""
    model = build("qwen2")
    parameter = nn.Parameter(torch.empty(0))
    parameter.ds_shape = (32, 32)
    model.model.layers[0].self_attn.q_proj.weight = parameter
    inventory = take_inventory(model)
    assert "model.layers.0.self_attn.q_proj.weight" not in {info.name for info in inventory.infos}
    (entry,) = inventory.unmeasured
    assert "ZeRO-3" in entry.why
    assert entry.layer == 0


def test_a_dtensor_is_unavailable():
    class Sharded(torch.Tensor):
        device_mesh = "mesh"

        def to_local(self):
            raise AssertionError("a part of a tensor is not measured")

    parameter = nn.Parameter(torch.zeros(4, 4).as_subclass(Sharded))
    assert "DTensor" in (sharding(parameter, "fc.weight") or "")
