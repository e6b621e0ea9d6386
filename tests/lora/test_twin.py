"""The model's twin tells what an adapter may sit on by the same rules as the recorder, not by a list of its own."""

from __future__ import annotations

import pytest
from transformers import CONFIG_MAPPING

from grpodyn.lora import twin

SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}


@pytest.mark.parametrize(
    ("model_type", "router", "extra"),
    [
        ("hunyuan_v1_moe", "mlp.gate.wg", {"moe_topk": [2] * 4, "num_shared_expert": [1] * 4}),
        ("qwen2_moe", "mlp.shared_expert_gate", {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}),
    ],
)
def test_a_router_stays_frozen_whatever_it_is_called(model_type: str, router: str, extra: dict[str, object]) -> None:
    config = CONFIG_MAPPING[model_type](**{**SIZES, **extra}).to_dict()
    built = twin.build({"class": None, "config": config})
    left_out = dict(built.left_out)
    assert left_out[f"model.layers.1.{router}"] == twin.ROUTER_REASON
    assert not [module.name for module in built.linear if module.name.endswith(router)]
    assert [module.name for module in built.linear if module.name == "model.layers.1.self_attn.q_proj"]
