from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.config import run, yaml_text
from grpodyn.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]
SMALL: dict[str, Any] = {"model": "embedded", "task": "arithmetic_format"}


def problem(value: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        run.from_dict(value, "run.yaml")
    assert str(caught.value).startswith("run.yaml: ")
    return str(caught.value)


def test_the_short_forms_mean_the_long_ones() -> None:
    short = run.from_dict(SMALL | {"rewards": ["exact_match", {"name": "stop", "weight": 0.5}]}, "short")
    long = run.from_dict(
        {
            "model": {"path": "embedded"},
            "task": {"name": "arithmetic_format"},
            "rewards": [{"name": "exact_match", "weight": 1.0}, {"name": "stop", "weight": 0.5}],
            "evaluate": {},
        },
        "long",
    )
    assert short == long


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modle": "x"}, ["unknown key `modle`", "did you mean 'model'?"]),
        ({"model": {"path": "x", "dtyp": "auto"}}, ["unknown key `model.dtyp`", "did you mean 'dtype'?"]),
        ({"rewards": ["stop", {"name": "stop", "weight": 2.0}]}, ["stop occurs twice", "another `label`"]),
        ({"record": {"presett": "full"}}, ["unknown key `record.presett`", "did you mean 'preset'?"]),
        ({"evaluate": {"promts": 3}}, ["unknown key `evaluate.promts`", "did you mean 'prompts'?"]),
        (
            {"rewards": [{"nam": "x"}]},
            ["unknown key `rewards.0.nam`", "did you mean 'name'?", "`rewards.0.name` is missing"],
        ),
        ({"model": {"path": "x", "dtype": "bf16"}}, ["`model.dtype` is 'bf16'", "'bfloat16'"]),
        ({"seed": "3"}, ["`seed` is '3'", "valid integer"]),
        ({"seed": -1}, ["`seed` is -1", "greater than or equal to 0"]),
        ({"evaluate": {"every": 0}}, ["`evaluate.every` is 0"]),
        ({"rewards": []}, ["`rewards` is []", "at least 1"]),
        ({"task": {}}, ["name and dataset are both null", "give the `name`"]),
        ({"task": {"name": "a", "dataset": "b"}}, ["give one of them", "'a'", "'b'"]),
        ({"task": {"name": "gsm8k", "prompt": "q"}}, ["prompt belong to a `dataset` alone", "'gsm8k'"]),
        ({"task": {"name": "arithmetic_format", "subset": "x"}}, ["subset belong to a `dataset`", "reads none"]),
        (
            {"task": "two_digit", "sft": {"task": {"name": "two_digit", "split": "report"}}},
            ["sft.task.split is 'report', on which evaluate.split measures"],
        ),
        ({"task": {"name": "gsm8k", "subset": "socratic"}}, ["name `dataset` too (the task's own is openai/gsm8k)"]),
        ({"task": {"dataset": "b", "options": {"x": 1}}}, ["options belong to a named task"]),
        ({"task": {"dataset": "b", "template": "Add: "}}, ["template is 'Add: '", "{prompt}"]),
        ({"task": {"dataset": "b", "system": "Add."}}, ["set chat to true"]),
        ({"grpo": {"output_dir": "x"}}, ["grpo.output_dir", "--run-dir"]),
        ({"grpo": {"seed": 1}}, ["grpo.seed", "top-level `seed`"]),
        ({"record": {"probes": ["grad_nrom"]}}, ["grad_nrom", "did you mean 'grad_norm'?"]),
    ],
)
def test_mistakes_are_named_with_key_value_and_expectation(change: dict[str, Any], words: list[str]) -> None:
    message = problem(SMALL | change)
    for word in words:
        assert word in message


def test_every_problem_is_named_at_once() -> None:
    message = problem({"modle": "embedded", "seed": "x"})
    assert all(word in message for word in ("`model` is missing", "`task` is missing", "`modle`", "`seed`"))


def test_own_tasks_are_evaluated_by_default_and_datasets_on_request() -> None:
    assert run.from_dict(SMALL, "x").evaluate == run.EvaluateConfig()
    assert run.from_dict(SMALL | {"evaluate": None}, "x").evaluate is None
    dataset = SMALL | {"task": {"dataset": "a.jsonl"}}
    assert run.from_dict(dataset, "x").evaluate is None
    asked = run.from_dict(dataset | {"evaluate": {"split": "test"}}, "x").evaluate
    assert asked is not None
    assert asked.split == "test"


def test_settings_reach_into_short_forms_and_are_validated() -> None:
    config = run.from_dict(SMALL, "x", ["model.dtype=bfloat16", "grpo.learning_rate=1e-5", "lora.r=8"])
    assert config.model == run.ModelConfig(path="embedded", dtype="bfloat16")
    assert config.grpo == {"learning_rate": 1e-5}
    assert config.lora == {"r": 8}
    with pytest.raises(ConfigError, match="unknown key `evaluat`"):
        run.from_dict(SMALL, "x", ["evaluat.every=5"])


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 10**6),
    rate=st.floats(1e-9, 1, allow_nan=False),
    weight=st.floats(-1e6, 1e6),
    rank=st.none() | st.integers(1, 64),
    every=st.none() | st.integers(1, 100),
)
def test_a_config_survives_yaml(seed, steps, rate, weight, rank, every) -> None:
    config = run.from_dict(
        SMALL
        | {
            "seed": seed,
            "grpo": {"max_steps": steps, "learning_rate": rate},
            "rewards": [{"name": "exact_match", "weight": weight}],
            "lora": None if rank is None else {"r": rank, "rank_pattern": {"^model\\.layers\\.1\\.q_proj$": 2}},
            "evaluate": {"every": every},
        },
        "x",
    )
    text = yaml_text.dump(config.to_dict())
    assert run.from_dict(yaml_text.parse(text, "y"), "y") == config
    # What is written can be read by any YAML reader, not only by ours.
    assert run.from_dict(yaml.safe_load(text), "y") == config


def test_the_config_in_the_repository_is_the_embedded_default() -> None:
    assert run.load(REPOSITORY / "configs" / "embedded.yaml") == run.embedded()


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_config_in_the_repository_is_valid(path: Path) -> None:
    run.load(path)


def test_what_is_written_down_holds_no_secret() -> None:
    secrets = {"hub_token": "hf_x", "push_to_hub_token": "hf_y"}
    config = run.from_dict({"model": "embedded", "task": "arithmetic_format", "grpo": {**secrets, "beta": 0.1}}, "here")
    assert config.to_record() == {**config.to_dict(), "grpo": {"beta": 0.1}}
