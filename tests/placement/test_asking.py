"""What is asked of checkpoints: against finite differences, and against a patch test written by hand."""

import math

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.attribution.result import Attribution
from grpodyn.attribution.subject import of_folders
from grpodyn.embedded import MODEL_DIR
from grpodyn.lora import twin
from grpodyn.placement import patched
from grpodyn.placement.first_order import feature_norm_scores, loss_change
from grpodyn.tasks import task


@pytest.fixture(scope="module")
def examples():
    return task("arithmetic_format").split("choose").head(24)


def loss(model, tokenizer, examples):
    """Mean cross-entropy of the answers' tokens, one prompt at a time."""
    total, count = 0.0, 0
    for prompt, answer in zip(examples.prompts, examples.answers, strict=True):
        start = tokenizer(prompt)["input_ids"]
        ids = torch.tensor([tokenizer(prompt + answer)["input_ids"]])
        with torch.no_grad():
            log_p = model(ids).logits[0].double().log_softmax(-1)
        for position in range(len(start), ids.shape[1]):
            total -= float(log_p[position - 1, ids[0, position]])
            count += 1
    return total / count


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """A tiny change of two matrices, so that finite differences are nearly exact."""
    folder = tmp_path_factory.mktemp("moved")
    model = AutoModelForCausalLM.from_pretrained(MODEL_DIR, dtype=torch.float32)
    torch.manual_seed(3)
    state = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for name in ("model.layers.1.mlp.up_proj.weight", "model.layers.4.self_attn.q_proj.weight"):
        state[name] += 1e-3 * torch.randn_like(state[name])
    model.config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(MODEL_DIR).save_pretrained(folder)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return of_folders(MODEL_DIR, folder, "float32", "cpu")


def test_first_order_change_is_the_difference_of_losses_for_small_steps(subject, examples):
    linear = twin.build({"class": "Qwen3ForCausalLM", "config": subject.model.config.to_dict()}).linear
    found = loss_change(subject, linear, examples)
    model, tokenizer = subject.model, subject.tokenizer
    for part, name in (
        ("layer 1", "model.layers.1.mlp.up_proj.weight"),
        ("q_proj", "model.layers.4.self_attn.q_proj.weight"),
    ):
        weight = model.get_parameter(name)
        change = subject.final.tensor(name) - subject.base.tensor(name)
        values = []
        for sign in (-0.5, 0.5):  # a central difference has no second-order term
            with torch.no_grad():
                weight += sign * change
            values.append(loss(model, tokenizer, examples))
            with torch.no_grad():
                weight -= sign * change
        assert found[part] == pytest.approx(-(values[1] - values[0]), rel=0.02)
    assert found["layer 0"] == found["k_proj"] == 0.0
    assert found["layer 4"] == pytest.approx(found["q_proj"])


def test_the_lowest_norm_leads_and_layers_have_none(subject, examples):
    linear = twin.build({"class": "Qwen3ForCausalLM", "config": subject.model.config.to_dict()}).linear
    found = feature_norm_scores(subject, linear, examples)
    assert set(found) == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(value < 0 for value in found.values())


def ranged(value):
    return {"value": value, "low": value, "high": value, "level": 0.95}


def part(partition, name, kept, lost, **more):
    fields = {"partition": partition, "part": name, "kind": "layer", "is_target": True, "tensors": 7}
    ranges = {"keep_only": ranged(0.1), "put_back": ranged(0.1), "share": ranged((kept + lost) / 2)}
    return {**fields, **ranges, "kept": ranged(kept), "lost": ranged(lost), **more}


def test_a_patch_test_scores_layers_blocks_and_types_but_nothing_that_lora_cannot_reach():
    found = Attribution.model_validate(
        {
            "created_at": "",
            "sources": {},
            "base": ranged(0.1),
            "final": ranged(0.9),
            "gain": ranged(0.8),
            "greedy": {},
            "parts": [
                part("layers", "layer 0", 0.3, 0.2, layers=[0]),
                part("layers", "layers 1-2", 0.4, 0.6, layers=[1, 2]),
                part("layers", "embeddings", 0.5, 0.5, kind="embedding", is_target=False),
                part("modules", "q_proj", 0.25, math.nan, kind="module"),
            ],
            "partitions": [],
            "truncation": [],
            "shapley": {
                "players": [{"part": "layer 0", "share": ranged(0.7)}, {"part": "all others", "share": ranged(0.3)}],
                "exact": True,
                "orders": 2,
            },
            "null": [],
            "confirm": [],
            "verdict": "distributed",
            "reading": {"word": "distributed", "parts": [], "text": ""},
            "verdicts": {},
            "leading": "layers",
            "resolution": 0.05,
            "evaluations": 9,
            "tokens": 9,
            "seconds": 1.0,
            "notes": [],
        }
    )
    scores = patched.scores(found)
    assert scores[patched.KEEP_ONLY] == {"layer 0": 0.3, "layer 1": 0.2, "layer 2": 0.2, "q_proj": 0.25}
    assert scores[patched.PUT_BACK]["layer 2"] == 0.3
    assert math.isnan(scores[patched.PUT_BACK]["q_proj"])
    assert scores[patched.SHAPLEY] == {"layer 0": 0.7}
