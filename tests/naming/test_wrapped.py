"""A15: whatever is wrapped around a model, in whatever nesting, its rows are those of the bare model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch import nn
from torch._dynamo import OptimizedModule
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper, checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel

from grpodyn.naming.inventory import take_inventory
from grpodyn.trace.schema import TensorInfo

EXPERTS = {
    "num_hidden_layers": 2,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
# An untied head with a name of its own, experts stored either way round, and a Conv1D.
FAMILIES = {
    "qwen3_moe": EXPERTS,
    "gpt_oss": EXPERTS,
    "rwkv": {"num_hidden_layers": 2},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32},
}
Wrap = Callable[[nn.Module], nn.Module]


def compiled(module: nn.Module) -> nn.Module:
    # torch does not compile what is compiled; nothing is compiled before the first forward.
    inner = module
    while isinstance(inner, CheckpointWrapper):
        inner = inner._checkpoint_wrapped_module
    return module if isinstance(inner, OptimizedModule) else torch.compile(module, backend="eager")


def blocks_of(model: nn.Module) -> nn.ModuleList:
    return next(module for module in model.modules() if isinstance(module, nn.ModuleList))


def inside(wrap: Wrap) -> Wrap:
    def wrap_blocks(model: nn.Module) -> nn.Module:
        blocks = blocks_of(model)
        for i, block in enumerate(blocks):
            blocks[i] = wrap(block)
        return model

    return wrap_blocks


def around_projections(model: nn.Module) -> nn.Module:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and name != "lm_head":
                setattr(parent, name, checkpoint_wrapper(child))
    return model


@pytest.fixture(scope="module")
def process_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path: Path = tmp_path_factory.mktemp("gloo") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
    assert torch.distributed.get_world_size() == 1
    yield
    torch.distributed.destroy_process_group()


WRAPS: dict[str, list[Wrap]] = {
    "compiled": [compiled],
    "compiled blocks": [inside(compiled)],
    "checkpointed blocks": [inside(checkpoint_wrapper)],
    "compiled checkpointed blocks": [inside(checkpoint_wrapper), inside(compiled)],
    "checkpointed compiled blocks": [inside(compiled), inside(checkpoint_wrapper), compiled],
    "checkpointed projections": [around_projections],
    "DDP": [DistributedDataParallel],
    "compiled DDP": [DistributedDataParallel, compiled],
    "DDP of compiled": [compiled, DistributedDataParallel],
    "everything": [around_projections, inside(compiled), inside(checkpoint_wrapper), compiled, DistributedDataParallel],
}


def apply(model: nn.Module, wraps: list[Wrap]) -> nn.Module:
    for wrap in wraps:
        model = wrap(model)
    return model


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tiny) -> tuple[str, list[TensorInfo]]:
    return request.param, take_inventory(tiny(request.param, **FAMILIES[request.param])).infos


@pytest.mark.parametrize("name", WRAPS)
def test_wrapped_models(family, name: str, tiny, process_group):
    family_name, bare = family
    wrapped = take_inventory(apply(tiny(family_name, **FAMILIES[family_name]), WRAPS[name]))
    assert wrapped.infos == bare
    assert wrapped.unmeasured == []


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([compiled, checkpoint_wrapper, inside(compiled), inside(checkpoint_wrapper)]), max_size=5)
)
def test_a15_any_nesting(tiny, wraps: list[Wrap]):
    sizes = {"num_hidden_layers": 2}
    assert take_inventory(apply(tiny("qwen2", **sizes), wraps)).infos == take_inventory(tiny("qwen2", **sizes)).infos


def adapted(model: nn.Module, second: bool = False, **config) -> nn.Module:
    settings = LoraConfig(**config)
    with warnings.catch_warnings():
        # PEFT's advice about tied weights and about ranks is not what is tested.
        warnings.simplefilter("ignore")
        model = get_peft_model(model, settings)
        if second:
            model.add_adapter("ref", settings)
    return model


ADAPTED = {
    "LoRA": {"r": 2, "target_modules": ["q_proj", "o_proj"]},
    "two adapters": {"second": True, "r": 2, "target_modules": ["q_proj"]},
    "saved head": {"r": 2, "target_modules": ["k_proj"], "modules_to_save": ["lm_head"]},
    "adapted embedding": {"r": 2, "target_modules": ["embed_tokens", "v_proj"]},
    "experts": {
        "r": 2,
        "target_modules": ["q_proj"],
        "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    },
    "a router": {"r": 2, "target_modules": ["q_proj"], "target_parameters": ["mlp.gate.weight"]},
}
OUTSIDE = ["compiled", "compiled blocks", "compiled checkpointed blocks", "DDP", "DDP of compiled"]


def moe(tiny) -> nn.Module:
    return tiny("qwen3_moe", **EXPERTS, tie_word_embeddings=False)


@pytest.fixture(scope="module", params=ADAPTED)
def adapter(request: pytest.FixtureRequest, tiny) -> tuple[dict, list[TensorInfo]]:
    bare = take_inventory(adapted(moe(tiny), **ADAPTED[request.param])).infos
    assert [info for info in bare if info.source == "lora"]
    return ADAPTED[request.param], bare


@pytest.mark.parametrize("name", OUTSIDE)
def test_adapters_in_any_nesting(adapter, name: str, tiny, process_group):
    config, bare = adapter
    assert take_inventory(apply(adapted(moe(tiny), **config), WRAPS[name])).infos == bare
    if "DDP" not in name:
        assert take_inventory(adapted(apply(moe(tiny), WRAPS[name]), **config)).infos == bare


def test_effective_rows_describe_the_weight_of_a_full_run(adapter, tiny):
    _, bare = adapter
    full = {info.name: info for info in take_inventory(moe(tiny)).infos}
    for info in bare:
        if info.source == "lora":
            assert replace(info, source="full") == full[info.name]


def test_a_layer_that_stands_twice_counts_once(tiny):
    model = tiny("llama", num_hidden_layers=3)
    layers = model.model.layers
    layers[2] = layers[0]
    infos = take_inventory(model).infos
    assert {info.layer for info in infos if info.stack} == {0, 1}
    assert len({info.name for info in infos}) == len(infos)
