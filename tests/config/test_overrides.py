from __future__ import annotations

import pytest

from grpodyn.config import overrides
from grpodyn.errors import ConfigError


def test_values_are_yaml() -> None:
    settings = ["a.int=3", "a.float=3e-4", "a.none=null", "a.flag=true", "a.list=[1, 2]", "a.map={r: 8}", "a.text=b=c"]
    assert overrides.apply({}, settings)["a"] == {
        "int": 3, "float": 3e-4, "none": None, "flag": True, "list": [1, 2], "map": {"r": 8}, "text": "b=c",
    }  # fmt: skip


def test_the_config_given_is_left_alone() -> None:
    config = {"grpo": {"max_steps": 1}}
    overrides.apply(config, ["grpo.max_steps=2"])
    assert config == {"grpo": {"max_steps": 1}}


def test_a_section_that_is_null_becomes_a_mapping() -> None:
    assert overrides.apply({"lora": None}, ["lora.r=8"]) == {"lora": {"r": 8}}


def test_list_entries_are_reached_by_index() -> None:
    assert overrides.apply({"rewards": [{"name": "x"}]}, ["rewards.0.weight=0.5"]) == {
        "rewards": [{"name": "x", "weight": 0.5}]
    }


def test_the_last_setting_wins() -> None:
    assert overrides.apply({}, ["seed=1", "seed=2"]) == {"seed": 2}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "expected key=value"),
        ("=3", "expected key=value"),
        ("grpo..x=3", "expected key=value"),
        ("seed.x=3", "seed is 0, which has no keys"),
        ("seed.x.y=3", "seed is 0, which has no keys"),
        ("rewards.1.weight=2", "no entry of a list of 1"),
        ("rewards.first.weight=2", "no entry of a list of 1"),
        ("rewards.2=x", "no entry of a list of 1"),
        ("a=[1", "--set 'a=\\[1' is not readable YAML"),
    ],
)
def test_nonsense_is_refused_with_the_setting_in_the_message(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        overrides.apply({"seed": 0, "rewards": [{"name": "x"}]}, [setting])
