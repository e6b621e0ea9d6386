from __future__ import annotations

import pytest

from grpodyn.config import run
from grpodyn.errors import ConfigError
from grpodyn.training.arguments import grpo_arguments, lora_arguments


def grpo(tmp_path, *settings: str):
    return grpo_arguments(run.embedded(settings), tmp_path / "checkpoints")


def test_the_config_reaches_trl_and_nothing_is_written(tmp_path) -> None:
    arguments = grpo(tmp_path, "seed=7", "grpo.learning_rate=1e-4", "rewards.0.weight=0.5")
    assert arguments.learning_rate == 1e-4
    assert arguments.seed == 7
    assert arguments.reward_weights == [0.5]
    assert arguments.num_generations == 8
    assert arguments.output_dir == str(tmp_path / "checkpoints")
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_a_recorded_run(tmp_path) -> None:
    arguments = grpo(tmp_path)
    assert (arguments.save_steps, arguments.save_total_limit) == (50, 2)
    assert arguments.report_to == []
    assert not arguments.gradient_checkpointing
    assert not arguments.logging_nan_inf_filter


def test_without_an_accelerator_training_is_on_the_cpu_in_float32(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("torch.accelerator.is_available", lambda *_, **__: False)
    arguments = grpo_arguments(run.from_dict({"model": "embedded", "task": "arithmetic_format"}, "x"), tmp_path)
    assert arguments.use_cpu
    assert not arguments.bf16


def test_what_the_config_says_wins(tmp_path) -> None:
    arguments = grpo(tmp_path, "grpo.save_steps=7", "grpo.logging_steps=3", "grpo.use_cpu=true", "grpo.bf16=true")
    assert (arguments.save_steps, arguments.logging_steps, arguments.bf16) == (7, 3, True)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("grpo.lerning_rate=1", ["unknown key `grpo.lerning_rate`", "did you mean 'learning_rate'?"]),
        ("grpo.learning_rate=fast", ["`grpo.learning_rate` is 'fast' (a str)", "expected float"]),
        ("grpo.max_steps=1.5", ["`grpo.max_steps` is 1.5 (a float)", "expected int"]),
        ("grpo.min_p=[1]", ["`grpo.min_p` is [1] (a list)", "expected float or null"]),
        ("grpo.lr_scheduler_type=sideways", ["TRL refuses", "sideways"]),
    ],
)
def test_mistakes_in_grpo_are_named(tmp_path, setting: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        grpo(tmp_path, setting)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "setting", ["learning_rate=-1", "weight_decay=-0.1", "adam_epsilon=-0.01", "adam_beta1=1.0", "adam_beta2=-0.5"]
)
def test_what_an_optimizer_refuses_is_said_before_the_model_is_loaded(tmp_path, setting: str) -> None:
    key, value = setting.split("=")
    with pytest.raises(ConfigError, match=rf"`grpo\.{key}` is {value}, expected a number"):
        grpo(tmp_path, f"grpo.{setting}")


def test_no_lora_section_is_full_fine_tuning() -> None:
    assert lora_arguments(run.embedded()) is None


def test_the_lora_section_reaches_peft() -> None:
    lora = lora_arguments(
        run.embedded(["lora={r: 4, lora_alpha: 8, target_modules: [q_proj], rank_pattern: {v_proj: 2}}"])
    )
    assert lora is not None
    assert (lora.r, lora.lora_alpha, lora.target_modules, lora.rank_pattern) == (4, 8, {"q_proj"}, {"v_proj": 2})
    assert lora.task_type == "CAUSAL_LM"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("lora={rank: 4}", ["unknown key `lora.rank`"]),
        ("lora={r: four}", ["`lora.r` is 'four'", "expected int"]),
        ("lora={r: 4, target_modules: all-linear, layers_to_transform: [1]}", ["PEFT refuses", "layers_to_transform"]),
    ],
)
def test_mistakes_in_lora_are_named(setting: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        lora_arguments(run.embedded([setting]))
    for word in words:
        assert word in str(caught.value)
