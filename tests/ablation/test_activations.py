import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from grpodyn.ablation.activations import batches, eva_ranks, feature_norms
from grpodyn.embedded import MODEL_DIR
from grpodyn.lora import twin
from grpodyn.lora.modules import LinearModule
from grpodyn.tasks import task


@pytest.fixture(scope="module")
def base():
    model = AutoModelForCausalLM.from_pretrained(MODEL_DIR)
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    inputs = batches(tokenizer, task("arithmetic_format").split("choose").head(256), "cpu")
    linear = twin.build({"class": "Qwen3ForCausalLM", "config": model.config.to_dict()}).linear
    return model, inputs, linear


def test_feature_norms_by_the_slow_formula(base):
    model, inputs, linear = base
    found = feature_norms(model, linear, inputs[:1])
    assert set(found) == {module.leaf for module in linear}
    ratios = []
    for layer in range(model.config.num_hidden_layers):
        live = model.get_submodule(f"model.layers.{layer}.mlp.up_proj")
        seen = []
        handle = live.register_forward_pre_hook(lambda _, arguments, seen=seen: seen.append(arguments[0]))
        norms = []
        for batch in inputs[:1]:
            seen.clear()
            with torch.no_grad():
                model(**batch)
            for row, mask in zip(seen[0], batch["attention_mask"], strict=True):
                norms += [float((live.weight.detach() @ (token / token.norm())).norm()) for token in row[mask.bool()]]
        handle.remove()
        ratios.append(sum(norms) / len(norms) / (float(live.weight.detach().norm()) / math.sqrt(live.in_features)))
    assert found["up_proj"] == pytest.approx(sum(ratios) / len(ratios), rel=1e-5)


def test_on_random_inputs_the_norm_is_one():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=64, vocab_size=50, n_positions=16))
    inputs = [{"input_ids": torch.randint(0, 50, (32, 16)), "attention_mask": torch.ones(32, 16, dtype=torch.long)}]
    # GPT-2 stores (in, out); fc's input has just been normalised, so random weights see it as random.
    found = feature_norms(model, [LinearModule("transformer.h.0.mlp.c_fc", 64, 256)], inputs)
    assert found["c_fc"] == pytest.approx(1.0, abs=0.05)


def test_padding_does_not_count(base):
    model, inputs, linear = base
    padded = [
        {
            "input_ids": torch.nn.functional.pad(batch["input_ids"], (7, 0)),
            "attention_mask": torch.nn.functional.pad(batch["attention_mask"], (7, 0)),
        }
        for batch in inputs
    ]
    # Positions move by the padding, which a rotary model hardly sees; what may not happen is that pads are counted.
    plain = feature_norms(model, linear, inputs)
    for leaf, value in feature_norms(model, linear, padded).items():
        assert value == pytest.approx(plain[leaf], rel=1e-3)


def test_eva_keeps_the_sum_of_ranks_and_leaves_no_hook(base):
    model, inputs, linear = base
    ranks = eva_ranks(model, linear, inputs, 4)
    assert set(ranks) <= {module.name for module in linear}
    assert sum(ranks.values()) == 4 * len(linear)
    assert max(ranks.values()) <= 8
    assert len(set(ranks.values())) > 1
    assert not any(module._forward_hooks for module in model.modules())
