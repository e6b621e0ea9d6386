"""Both versions of the weights, as they lie on disk: whole, in shards, as adapters, with experts apart."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from grpodyn.attribution.adapter import AdapterWeights
from grpodyn.attribution.changes import scan
from grpodyn.attribution.subject import of_folders
from grpodyn.attribution.weights import FolderWeights, Overlaid
from grpodyn.errors import MissingDataError, UnreadableError

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MOE = {"num_experts": 3, "num_local_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def tiny(model_type: str, **extra: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**{**SIZES, **extra}))


def on_meta(config: Any) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("model_type", ["qwen3", "gpt2", "qwen3_moe", "mixtral", "olmoe"])
def test_every_live_weight_is_found_on_disk(model_type: str, tmp_path: Path) -> None:
    extra = {"n_embd": 32, "n_layer": 2, "n_head": 2} if model_type == "gpt2" else MOE if "mo" in model_type else {}
    extra = MOE if model_type == "mixtral" else extra
    model = tiny(model_type, **extra)
    model.save_pretrained(tmp_path)
    weights = FolderWeights(tmp_path)
    assert weights.beyond(name for name, _ in model.named_parameters()) == ()
    for name, parameter in AutoModelForCausalLM.from_pretrained(tmp_path).named_parameters():
        stored = weights.tensor(name)
        assert stored is not None, name
        assert torch.equal(stored, parameter), name


def test_shards_and_single_files_are_the_same(tmp_path: Path) -> None:
    model = tiny("qwen3")
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    one, many = FolderWeights(tmp_path / "one"), FolderWeights(tmp_path / "many")
    assert len(many.files.files) > 3
    for name, _ in model.named_parameters():
        assert torch.equal(one.tensor(name), many.tensor(name))
    assert one.digest() == FolderWeights(tmp_path / "one").digest()


def test_other_weights_have_another_digest(tmp_path: Path) -> None:
    model = tiny("qwen3")
    model.save_pretrained(tmp_path / "a")
    with torch.no_grad():
        model.model.norm.weight[0] += 1
    model.save_pretrained(tmp_path / "b")
    assert FolderWeights(tmp_path / "a").digest() != FolderWeights(tmp_path / "b").digest()


def test_no_weights_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="holds no weights in safetensors files"):
        FolderWeights(tmp_path)
    with pytest.raises(MissingDataError, match="cannot be read"):
        FolderWeights(tmp_path, ["start.safetensors"])


def test_what_a_run_kept_lies_over_the_checkpoint(tmp_path: Path) -> None:
    for name in "ab":
        model = tiny("qwen3")
        with torch.no_grad():
            model.model.norm.weight.fill_(1.0 if name == "a" else 2.0)
        model.save_pretrained(tmp_path / name)
    over = Overlaid(FolderWeights(tmp_path / "b"), FolderWeights(tmp_path / "a"))
    assert over.tensor("model.norm.weight")[0] == 2.0
    assert over.tensor("nothing") is None
    assert over.digest() != FolderWeights(tmp_path / "a").digest()


ADAPTERS = {
    "lora": {},
    "rslora": {"use_rslora": True},
    "dora": {"use_dora": True},
    "ranks and alphas by layer": {"rank_pattern": {"layers.1.mlp.down_proj": 2}, "alpha_pattern": {"q_proj": 4}},
    "a whole head beside": {"modules_to_save": ["lm_head"]},
    "an embedding": {"target_modules": ["embed_tokens", "v_proj"]},
    "experts": {
        "target_modules": ["q_proj"],
        "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    },
    "conv1d": {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True},
    "conv1d, dora": {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True, "use_dora": True},
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PEFT: random starts, and experts wrapped twice
@pytest.mark.parametrize("kind", ADAPTERS)
def test_an_adapters_weights_are_those_that_peft_merges(kind: str, tmp_path: Path) -> None:
    family = "gpt2" if "conv1d" in kind else "qwen3_moe" if kind == "experts" else "qwen3"
    extra = {"gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2}, "qwen3_moe": MOE, "qwen3": {}}[family]
    model = tiny(family, **extra)
    model.save_pretrained(tmp_path / "base")
    options = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], **ADAPTERS[kind]}
    torch.manual_seed(1)
    adapted = get_peft_model(copy.deepcopy(model), LoraConfig(**options, init_lora_weights=False))
    if "whole head" in kind:
        with torch.no_grad():
            adapted.base_model.model.lm_head.modules_to_save["default"].weight.add_(1.0)
    adapted.save_pretrained(tmp_path / "adapter")
    base = FolderWeights(tmp_path / "base")
    weights = AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))
    merged = adapted.merge_and_unload()
    assert weights.beyond(name for name, _ in merged.named_parameters()) == ()
    changed = set()
    for name, parameter in merged.named_parameters():
        ours = weights.tensor(name)
        torch.testing.assert_close(ours.to(parameter.dtype), parameter, rtol=1e-5, atol=1e-6, msg=f"{kind}: {name}")
        if not torch.equal(parameter, base.tensor(name)):
            changed.add(name)
    assert changed == set(weights.changed)


def test_an_adapter_without_its_weights_or_of_another_kind(tmp_path: Path) -> None:
    model = tiny("qwen3")
    model.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, target_modules=["q_proj"]))
    adapted.save_pretrained(tmp_path / "adapter")
    base = FolderWeights(tmp_path / "base")
    config = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "target_modules": ["up_proj"]}))
    weights = AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))
    with pytest.raises(UnreadableError, match=r"has no .*up_proj\.lora_A.*merge it into whole weights"):
        weights.tensor("model.layers.0.mlp.up_proj.weight")
    config.write_text(json.dumps({**content, "target_modules": ["no_such"]}))
    with pytest.raises(UnreadableError, match="PEFT cannot put the adapter"):
        AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))
    config.write_text(json.dumps({**content, "init_lora_weights": "pissa"}))
    with pytest.raises(UnreadableError, match="a start by pissa changes the base"):
        AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()
    with pytest.raises(MissingDataError, match=r"no adapter_model\.safetensors"):
        AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PEFT: the embedding and the head are one
@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    ],
)
def test_an_adapter_of_one_end_of_a_tied_weight_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    # PEFT changes the one end alone; written into the shared weight the change would be of both, or lost.
    model = tiny("qwen3", tie_word_embeddings=True)
    model.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, **options, init_lora_weights=False))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "modules_to_save" in name:
                parameter.add_(1.0)
    adapted.save_pretrained(tmp_path / "adapter")
    with pytest.raises(UnreadableError, match=r"shares among .*embed_tokens.* and lm_head.*untie"):
        of_folders(tmp_path / "base", tmp_path / "adapter", None, "cpu")


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_a_head_that_training_untied_is_no_change_of_a_tied_base(own: float, tmp_path: Path) -> None:
    model = tiny("qwen3", tie_word_embeddings=True)
    model.save_pretrained(tmp_path / "base")
    untied = tiny("qwen3", tie_word_embeddings=False)
    untied.load_state_dict(model.state_dict())
    with torch.no_grad():
        untied.lm_head.weight.add_(own)
    untied.save_pretrained(tmp_path / "final")
    with pytest.raises(UnreadableError if own else MissingDataError) as raised:
        of_folders(tmp_path / "base", tmp_path / "final", None, "cpu")
    # Both ends alike pass, as far as the tokenizer that is not there.
    assert ("with different values" if own else "no tokenizer") in str(raised.value)


def test_a_model_that_computes_otherwise_is_refused(tmp_path: Path) -> None:
    tiny("qwen3").save_pretrained(tmp_path / "base")
    trained = tiny("qwen3")
    trained.config.use_cache = False
    trained.config.eos_token_id = 3
    trained.config.attention_dropout = 0.1
    trained.save_pretrained(tmp_path / "final")
    content = json.loads((tmp_path / "final" / "config.json").read_text())
    (tmp_path / "final" / "config.json").write_text(json.dumps({**content, "unsloth_fixed": True}))
    with pytest.raises(MissingDataError, match="no tokenizer"):
        of_folders(tmp_path / "base", tmp_path / "final", None, "cpu")
    trained.config.rope_parameters = {"rope_type": "default", "rope_theta": 1000000.0}
    trained.save_pretrained(tmp_path / "final")
    with pytest.raises(
        UnreadableError, match=r"rope_parameters\.rope_theta is 1000000\.0 there and 10000\.0 in the base"
    ):
        of_folders(tmp_path / "base", tmp_path / "final", None, "cpu")


def test_factors_that_the_adapters_config_does_not_name_are_not_dropped(tmp_path: Path) -> None:
    model = tiny("qwen3")
    model.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    adapted.save_pretrained(tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "target_modules": ["q_proj"]}))
    base = FolderWeights(tmp_path / "base")
    weights = AdapterWeights(base, tmp_path / "adapter", on_meta(model.config))
    with pytest.raises(UnreadableError, match=r"changes .*layers\.0\.self_attn\.v_proj.* no place for"):
        scan(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), base, weights)
