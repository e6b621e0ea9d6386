"""A patch is a config that `record` takes, whatever was found."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.config import run as run_config
from grpodyn.config.batching import batch_plan
from grpodyn.diagnosis import diagnose, patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.groups import groups_of
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import rules
from grpodyn.errors import ConfigError
from grpodyn.training.arguments import grpo_arguments, lora_arguments


def config_for(run) -> dict:
    grpo = {"learning_rate": run.settings["learning_rate"], "num_generations": run.settings["num_generations"]}
    grpo |= {key: run.settings[key] for key in ("beta", "num_iterations", "max_completion_length", "loss_type")}
    grpo |= {"per_device_train_batch_size": 16, "max_steps": int(run.settings["max_steps"])}
    if "epsilon_high" in run.settings:
        grpo["epsilon_high"] = run.settings["epsilon_high"]
    raw = {
        "model": {"path": "embedded", "dtype": run.dtype},
        "task": "arithmetic_format",
        "rewards": [{"name": f"mine:{name}", "weight": 1.0} for name in run.weights],
        "grpo": grpo,
        "lora": run.lora,
    }
    return run_config.from_dict(raw, "a test").to_record()


def with_config(seen: Observations, config: dict) -> Observations:
    return Observations(**{**{n: getattr(seen, n) for n in seen.__dataclass_fields__}, "config": config})


def test_patches_of_every_scenario_validate(faults, observe) -> None:
    patched = set()
    for scenario in faults.FAULTS:
        for seed in (1000, 1001, 1002):
            run = faults.simulate(scenario, seed)
            config = config_for(run)
            findings = diagnose(with_config(observe(run), config)).findings
            for finding in findings:
                if finding.patch:
                    result = patches.apply(config, [finding], "a test")
                    validated = run_config.from_dict(dict(result.config), "a test")
                    batch_plan(validated.grpo)
                    assert result.changes or finding.id == "bf16_updates_lost", (finding.id, finding.patch)
                    patched.add(finding.id)
            patches.apply(config, findings, "all at once")
    assert len(patched) >= 18, sorted(patched)


@pytest.mark.slow
def test_trl_and_peft_take_the_patched_keys(faults, observe, tmp_path) -> None:
    for scenario in faults.FAULTS:
        run = faults.simulate(scenario, 1000)
        config = config_for(run)
        findings = [f for f in diagnose(with_config(observe(run), config)).findings if f.patch]
        validated = run_config.from_dict(dict(patches.apply(config, findings, "a test").config), "a test")
        grpo_arguments(validated, tmp_path)
        lora_arguments(validated)


def finding(name: str, patch: dict, severity: str = "warning") -> Finding:
    return Finding(name, severity, None, (), patch=patch)


RAW = {"model": "embedded", "task": "arithmetic_format", "grpo": {"learning_rate": 1e-5, "beta": 0.0}}


def test_the_graver_finding_decides_and_the_other_is_named() -> None:
    found = patches.apply(
        RAW,
        [
            finding("a", {"grpo": {"learning_rate": 1e-6}}),
            finding("b", {"grpo": {"learning_rate": 5e-6, "beta": 0.02}}),
        ],
        "a test",
    )
    assert found.config["grpo"]["learning_rate"] == 1e-6
    assert found.config["grpo"]["beta"] == 0.02
    assert found.changes == ("grpo.learning_rate: 1e-05 → 1e-06 (a)", "grpo.beta: 0.0 → 0.02 (b)")
    assert len(found.not_taken) == 1


def test_the_original_is_left_alone() -> None:
    raw = {**RAW, "grpo": dict(RAW["grpo"])}
    patches.apply(raw, [finding("a", {"grpo": {"beta": 0.5}})], "a test")
    assert raw["grpo"]["beta"] == 0.0


def test_null_takes_a_key_out() -> None:
    found = patches.apply(RAW, [finding("a", {"grpo": {"beta": None}})], "a test")
    assert "beta" not in found.config["grpo"]


def test_a_patch_that_does_not_validate_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        patches.apply(RAW, [finding("a", {"model": {"dtpye": "float32"}})], "a test")


def test_settings_of_a_patch_are_what_set_takes() -> None:
    patch = {"grpo": {"learning_rate": 1e-6}, "rewards": [{"name": "exact_match", "weight": 0.5}]}
    changed = run_config.from_dict(RAW, "a test", patches.settings_of(patch))
    assert changed.grpo["learning_rate"] == 1e-6
    assert changed.rewards[0].weight == 0.5


def test_a_doubled_group_fits_its_batch() -> None:
    seen = Observations("x", steps=[], columns={}, settings={"num_generations": 12, "per_device_train_batch_size": 24})
    patch = patches.group_size(seen, 2)
    assert patch["grpo"]["num_generations"] == 24
    batch_plan({"per_device_train_batch_size": 24, **patch["grpo"]})


def test_every_rule_names_a_config_key() -> None:
    assert all(rule.config_key for rule in rules().values())


def test_weights_change_and_nothing_else_of_a_reward() -> None:
    config = {
        "rewards": [
            {"name": "exact_match", "weight": 1.0},
            {"name": "pattern", "weight": 2.0, "options": {"regex": "^<answer>"}},
            {"name": "length", "weight": 0},
            "answer_format",
        ]
    }
    weights = {"exact_match": 1.0, "pattern": 2.0, "length": 0.0, "answer_format": 1.0}
    seen = Observations("x", steps=np.array([]), columns={}, config=config, weights=weights)
    patch = patches.reward_weights(seen, {"pattern": 0.25, "length": 0.25, "answer_format": 0.25})
    # A quarter of 2 and of 1; a reward that is off stays off.
    assert patch == {
        "rewards": [
            {"name": "exact_match", "weight": 1.0},
            {"name": "pattern", "weight": 0.5, "options": {"regex": "^<answer>"}},
            {"name": "length", "weight": 0.0},
            {"name": "answer_format", "weight": 0.25},
        ]
    }


def opposed(config: list[str], weights: dict[str, float]) -> Observations:
    # Every completion that is right is badly formatted: the correlation within groups is -1.
    right = np.tile([1.0, 0.0, 1.0, 0.0], (30, 2, 1))
    of = {"exact_match": right, "answer_format": 1 - right, "length": 1 - right}
    rewards = np.stack([of[name] for name in weights], axis=-1)
    steps = np.arange(1, 31)
    columns = {f"rewards/{name}/mean": np.full(30, 0.5) for name in weights}
    groups = groups_of(steps, rewards.sum(axis=-1), rewards, None, tuple(weights))
    return Observations("x", steps=steps, columns=columns, config={"rewards": config}, weights=weights, groups=groups)


@pytest.mark.parametrize("order", [("answer_format", "exact_match"), ("exact_match", "answer_format")])
def test_which_of_two_opposed_rewards_is_the_task_is_not_told_by_their_order(order: tuple[str, str]) -> None:
    # Both names speak of an answer: neither is known to be the task's, and none is dropped.
    seen = opposed(list(order), dict.fromkeys(order, 1.0))
    assert seen.task_part is None
    found = rules()["reward_opposition"].check(seen)
    assert found is not None
    assert found.patch is None


@pytest.mark.parametrize("order", [("length", "exact_match"), ("exact_match", "length")])
def test_of_a_task_and_what_opposes_it_the_task_stays(order: tuple[str, str]) -> None:
    found = rules()["reward_opposition"].check(opposed(list(order), dict.fromkeys(order, 1.0)))
    assert found is not None
    assert found.patch == {"rewards": ["exact_match"]}
