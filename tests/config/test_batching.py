from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.config.batching import TRL_DEFAULTS, batch_plan, planned_steps, world_size
from grpodyn.errors import ConfigError


def test_steps_grow_with_the_group_at_equal_batch_size() -> None:
    # The case of the field: 800 prompts, 32 completions a step; G=4 takes 8 prompts a step, G=8 only 4.
    small = batch_plan({"per_device_train_batch_size": 32, "num_generations": 4})
    large = batch_plan({"per_device_train_batch_size": 32, "num_generations": 8})
    assert (small.steps_per_epoch(800), large.steps_per_epoch(800)) == (100, 200)


def test_accumulation_iterations_and_ranks_count() -> None:
    # 2 ranks × 8 completions × 4 micro-batches = 64 completions = 16 prompts of 4; each batch serves 3 passes.
    grpo = {
        "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_generations": 4, "num_iterations": 3,
    }  # fmt: skip
    plan = batch_plan(grpo, ranks=2)
    assert (plan.completions_per_generation, plan.completions_per_step, plan.prompts_per_generation) == (64, 64, 16)
    assert plan.steps_per_epoch(160) == 30


def test_one_generation_can_feed_several_steps() -> None:
    plan = batch_plan({"per_device_train_batch_size": 8, "num_generations": 8, "generation_batch_size": 32})
    assert plan.steps_per_generation == 4
    assert plan == batch_plan({"per_device_train_batch_size": 8, "num_generations": 8, "steps_per_generation": 4})


@pytest.mark.parametrize(
    ("grpo", "words"),
    [
        (
            {"num_generations": 6},
            ["num_generations is 6", "holds 8 completions", "4 or 8", "per_device_train_batch_size 12"],
        ),
        ({"num_generations": 1}, ["at least 2"]),
        ({"num_generations": 0}, ["grpo.num_generations is 0", "positive whole number"]),
        ({"per_device_train_batch_size": 2.5}, ["is 2.5", "positive whole number"]),
        ({"num_iterations": True}, ["is True"]),
        ({"generation_batch_size": 12}, ["12", "not a multiple of the 8"]),
        ({"generation_batch_size": 16, "steps_per_generation": 2}, ["set one of them"]),
        *(
            ({key: value}, [f"grpo.{key} is {value!r}", "positive whole number"])
            for key in ("generation_batch_size", "steps_per_generation", "max_completion_length", "num_generations")
            for value in ("abc", 0, -5, 2.0, 10**23, float("nan"))
        ),
        ({"per_device_train_batch_size": 10**6, "gradient_accumulation_steps": 10**6, "num_generations": 7}, ["7"]),
        ({"per_device_train_batch_size": 1}, ["use per_device_train_batch_size 8"]),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(grpo: dict, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        batch_plan(grpo)
    for word in words:
        assert word in str(caught.value)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(2, 20))
def test_the_values_it_suggests_do_fit(per_device: int, accumulation: int, group: int) -> None:
    grpo = {
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": accumulation,
        "num_generations": group,
    }
    try:
        batch_plan(grpo)
    except ConfigError as error:
        assert per_device * accumulation % group != 0
        advised = int(str(error).rpartition("per_device_train_batch_size ")[2])
        batch_plan(grpo | {"per_device_train_batch_size": advised})
        assert advised * accumulation % group == 0
    else:
        assert per_device * accumulation % group == 0


def test_steps_of_a_run() -> None:
    plan = batch_plan({"per_device_train_batch_size": 16, "num_generations": 4})
    assert planned_steps({"max_steps": 7}, plan, prompts=100) == 7
    assert planned_steps({}, plan, prompts=100) == 75  # TRL's three epochs of 25 batches
    assert planned_steps({"num_train_epochs": 0.5}, plan, prompts=100) == 13


@pytest.mark.parametrize("key", ["max_steps", "num_train_epochs"])
@pytest.mark.parametrize("value", ["abc", None, True, float("nan"), float("inf"), [3]], ids=repr)
def test_a_length_that_is_no_number_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"grpo.{key} is"):
        planned_steps({key: value}, batch_plan({}), prompts=100)


def test_a_launcher_that_says_zero_means_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "0")
    assert world_size() == 1


@pytest.mark.slow
def test_the_defaults_are_those_of_trl(tmp_path) -> None:
    from trl import GRPOConfig  # noqa: PLC0415  # seconds that the other tests here do without

    config = GRPOConfig(output_dir=str(tmp_path), report_to="none", bf16=False)
    assert {key: getattr(config, key) for key in TRL_DEFAULTS} == TRL_DEFAULTS
