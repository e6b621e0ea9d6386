from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from peft import LoraConfig
from transformers import CONFIG_MAPPING

from grpodyn.config import run as run_config
from grpodyn.errors import ConfigError, MissingDataError, UsageError
from grpodyn.lora import apply
from grpodyn.lora.advice import advise
from grpodyn.lora.policy import Options
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.writer import TraceWriter

SIZES = {"vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FLAT = [1.0, 1.1, 1.2, 1.1, 1.0, 1.3]
UNEVEN = [0.2, 0.2, 0.3, 0.3, 0.5, 1.0]


def test_flat_movement_keeps_uniform(make_run) -> None:
    advice = advise(make_run(coherence=FLAT), Options())
    assert "flat" in advice.verdict
    assert "keep uniform" in advice.verdict
    assert advice.rung == 1
    assert {(m.rank, m.alpha) for m in advice.modules} == {(16, 32)}
    assert len(advice.modules) == 42
    assert advice.coverage == 1.0


def test_uneven_movement_is_still_uniform_and_says_why(make_run) -> None:
    run = make_run(coherence=UNEVEN)
    advice = advise(run, Options())
    assert "uneven (largest/smallest 5.00)" in advice.verdict
    assert "movement is not contribution" in advice.verdict
    assert {(m.rank, m.alpha) for m in advice.modules} == {(16, 32)}
    # The layer that moved most becomes a question, not a target.
    assert "layers 5 hold" in advice.next_experiment.question
    assert advice.next_experiment.commands == (f"grpodyn attribute {run.path}",)


def test_movement_is_never_called_what_it_is_not(make_run) -> None:
    for options in (Options(), Options(goal="retention"), Options(max_params=20_000)):
        text = json.dumps(advise(make_run(name=str(options), coherence=UNEVEN), options).to_json(), ensure_ascii=False)
        assert "important" not in text
        assert "importance" not in text
        assert text.count("contribution") == text.count("movement is not contribution")


def test_json_has_the_stable_keys_and_no_bare_nan(make_run) -> None:
    advice = advise(make_run(), Options()).to_json()
    expected = {"verdict", "rung", "peft_config", "modules", "trainable_params", "all_linear_params", "training"}
    assert expected | {"evidence", "conflicts", "warnings", "next_experiment"} <= advice.keys()
    assert advice["training"].keys() == {"learning_rate", "low", "high", "basis"}
    assert advice["modules"][0].keys() >= {"name", "rank", "alpha"}
    assert advice["trainable_params"] == 89_088
    json.loads(json.dumps(advice, allow_nan=False))


def test_a_budget_shows_in_the_verdict_and_in_the_count(make_run) -> None:
    advice = advise(make_run(), Options(max_params=40_000))
    assert "budget: rank 16 → 4)" in advice.verdict
    assert len(advice.modules) == 42
    assert advice.trainable_params == advice.all_linear_params == 22_272
    tighter = advise(make_run(name="tighter"), Options(max_params=22_271))
    assert "rank 16 → 4; k_proj and q_proj left out" in tighter.verdict
    assert tighter.all_linear_params == 22_272
    with pytest.raises(UsageError, match="smallest possible"):
        advise(make_run(name="other"), Options(max_params=10))


def test_a_lora_run_keeps_alpha_times_rate_and_its_dropout(make_run) -> None:
    advice = advise(make_run(lora_rank=8), Options())
    assert advice.training.learning_rate == 1e-6
    assert advice.peft_config["lora_dropout"] == 0.05
    assert any("adapters could do" in warning for warning in advice.warnings)
    assert advice.movement.lora


def test_a_rank_cap_that_may_bind_is_an_observation(make_run) -> None:
    advice = advise(make_run(lora_rank=4, effective_rank=3.8), Options())
    statement = next(e.statement for e in advice.evidence if e.statistic == "effective_rank")
    assert "0.95 of the adapter's rank: the cap may bind, try twice the rank" in statement
    assert "rank limit the gain" in advice.next_experiment.question
    assert {m.rank for m in advice.modules} == {16}
    loose = advise(make_run(name="loose", lora_rank=16, effective_rank=3.8), Options())
    assert not any("may bind" in e.statement for e in loose.evidence)


def test_bf16_storage_is_named_and_energy_ranks_lead(make_run) -> None:
    advice = advise(make_run(dtype="bfloat16", effective_rank=40.0), Options())
    assert any("bfloat16" in warning and "rounding" in warning for warning in advice.warnings)
    ranks = [e.statistic for e in advice.evidence if "rank" in e.statistic]
    assert ranks == ["energy_rank_90", "effective_rank"]


def test_a_killed_run_is_called_interrupted_and_still_read(make_run) -> None:
    run = make_run(status=None)
    run.manifest.status = "running"
    # The writer of this process lives; a reader that finds it dead sees the same record as interrupted.
    run._alive = False
    advice = advise(run, Options())
    assert any("interrupted" in warning and "step 40" in warning for warning in advice.warnings)


def test_an_empty_run_is_called_empty(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "nothing", Manifest())
    writer.close("failed")
    with pytest.raises(MissingDataError, match="is empty"):
        advise(open_run(tmp_path / "nothing"), Options())


def test_too_few_steps_are_refused(make_run) -> None:
    with pytest.raises(MissingDataError, match=r"3 recorded steps.*at least 4"):
        advise(make_run(steps=3), Options())


def test_missing_probes_are_named(make_run) -> None:
    with pytest.raises(MissingDataError, match="delta_norm"):
        advise(make_run(probes=("update_norm", "grad_norm")), Options())
    advice = advise(make_run(name="no-gradient", probes=("update_norm", "delta_norm"), spectra=False), Options())
    assert any("grad_norm was not recorded" in warning for warning in advice.warnings)
    assert any("no spectral sweep" in warning for warning in advice.warnings)
    assert not any(e.statistic.startswith("gradient") for e in advice.evidence)
    assert math.isnan(advice.movement.layers[0].relative_displacement)


def test_retention_keeps_the_default_and_names_the_conflict(make_run) -> None:
    advice = advise(make_run(), Options(goal="retention"))
    assert {(m.rank, m.alpha) for m in advice.modules} == {(16, 32)}
    assert [c.topic for c in advice.conflicts][:2] == ["which layers", "what predicts forgetting"]
    assert {"arXiv:2609.39321", "arXiv:2607.01232"} <= set(advice.conflicts[0].references)
    assert "forget" in advice.next_experiment.question


def test_redirected_targets_are_left_out_and_named(make_run) -> None:
    sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24}
    sizes |= {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_group": 2, "topk_group": 1}
    sizes |= {"first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    sizes |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = CONFIG_MAPPING["deepseek_v3"](**sizes).to_dict()
    model = {"name": "moe", "class": "DeepseekV3ForCausalLM", "config": config}
    advice = advise(make_run(manifest={"model": model}), Options())
    leaves = {m.name.rsplit(".", 1)[-1] for m in advice.modules}
    assert leaves == {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"}
    assert any("redirects down_proj, gate_proj, up_proj" in warning for warning in advice.warnings)
    assert any("% of the blocks' weights" in warning for warning in advice.warnings)
    assert 0 < advice.coverage < 0.5


def test_every_target_says_how_many_modules_it_matches(make_run) -> None:
    advice = advise(make_run(), Options(rank=32))
    assert advice.target_counts == dict.fromkeys(advice.peft_config["target_modules"], 6)
    assert advice.max_rank == 32


def test_a_trace_of_other_names_than_the_model_is_noticed(make_run) -> None:
    sizes = CONFIG_MAPPING["gpt2"](n_embd=64, n_layer=6, n_head=4, n_positions=64, **SIZES).to_dict()
    other = advise(make_run(manifest={"model": {"class": "GPT2LMHeadModel", "config": sizes}}), Options())
    assert any("none of the advised modules" in w and "another model's" in w for w in other.warnings)
    run = make_run(name="partly")
    run.manifest.model["config"] |= {"num_hidden_layers": 7, "layer_types": None}
    partly = advise(run, Options())
    assert any(w.startswith("of 7 advised modules (the first: model.layers.6.") for w in partly.warnings)


def config() -> dict:
    return {
        "model": "embedded",
        "task": "arithmetic_format",
        "grpo": {"learning_rate": 3e-4, "max_steps": 10, "per_device_train_batch_size": 8, "num_generations": 8},
        "seed": 3,
    }


def test_apply_merges_adapter_and_rate_and_leaves_the_rest(make_run, tmp_path: Path) -> None:
    run = make_run(manifest={"trainer": {"arguments": {"learning_rate": 3e-4}}})
    advice = advise(run, Options())
    merged = apply.merge(config(), advice, "config.yaml")
    assert merged.config["grpo"]["learning_rate"] == pytest.approx(9e-4)
    assert merged.config["grpo"]["max_steps"] == 10
    assert merged.config["seed"] == 3
    apply.write_run_config(tmp_path / "new.yaml", merged, advice)
    loaded = run_config.load(tmp_path / "new.yaml")
    assert loaded.lora == {
        "r": 16,
        "lora_alpha": 32,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"],
    }
    assert loaded.grpo["learning_rate"] == pytest.approx(9e-4)
    assert any("9e-04" in change or "0.0009" in change for change in merged.changes)


def test_keep_lr_leaves_the_rate(make_run) -> None:
    run = make_run(manifest={"trainer": {"arguments": {"learning_rate": 3e-4}}})
    merged = apply.merge(config(), advise(run, Options(keep_learning_rate=True)), "config.yaml")
    assert merged.config["grpo"]["learning_rate"] == 3e-4


def test_apply_replaces_an_adapter_whole_and_says_what_went(make_run) -> None:
    before = {**config(), "lora": {"r": 8, "layers_to_transform": [1], "init_lora_weights": "pissa"}}
    merged = apply.merge(before, advise(make_run(), Options()), "config.yaml")
    assert "layers_to_transform" not in merged.config["lora"]
    assert any("init_lora_weights, layers_to_transform taken out" in change for change in merged.changes)
    assert before["lora"]["r"] == 8


def test_nothing_is_overwritten_without_being_told(make_run, tmp_path: Path) -> None:
    advice = advise(make_run(), Options())
    target = tmp_path / "lora.json"
    target.write_text("mine")
    with pytest.raises(UsageError, match="--overwrite"):
        apply.write_peft_config(target, advice)
    assert target.read_text() == "mine"
    apply.write_peft_config(target, advice, overwrite=True)
    assert json.loads(target.read_text())["r"] == 16


def test_a_folder_gets_the_name_that_peft_looks_for(make_run, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    advice = advise(make_run(), Options(method="rslora"))
    assert apply.write_peft_config(folder, advice) == folder / "adapter_config.json"
    loaded = LoraConfig.from_pretrained(str(folder))
    assert (loaded.r, loaded.lora_alpha, loaded.use_rslora) == (16, 32, True)


def test_the_config_of_a_recorded_run_can_be_applied_to(make_run, tmp_path: Path) -> None:
    run = make_run(manifest={"config": config()})
    assert apply.read_config(run.path) == config()
    with pytest.raises(ConfigError, match="holds no run config"):
        apply.read_config(make_run(name="script").path)


def test_the_layer_that_moved_most_is_named_as_the_one_to_test(make_run) -> None:
    # Six layers; layer 3 moves three times as far as each of the others, whose energy is 1: 9 / (9 + 5).
    coherence = [0.9 if layer == 3 else 0.3 for layer in range(6)]
    advice = advise(make_run(coherence=coherence), Options())
    (named,) = (e for e in advice.evidence if e.statistic == "largest_displacement_layer")
    assert named.statement.startswith("largest net displacement: layer 3, 64 % of the energy")
    assert named.value == pytest.approx(9 / 14, rel=1e-3)
    assert len(advice.modules) == 42
    # Where all layers move alike, no layer is named.
    assert not any(
        e.statistic == "largest_displacement_layer"
        for e in advise(make_run(name="alike", coherence=[0.5] * 6), Options()).evidence
    )
