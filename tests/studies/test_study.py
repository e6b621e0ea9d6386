"""Study files: what they mean, and what is refused before anything is trained."""

from __future__ import annotations

import pytest

from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.study import load_study, restricted


def test_a_grid_is_every_combination(write, tmp_path):
    study = load_study(write(grid={"grpo.num_generations": [2, 4], "lora": [None, {"r": 8}]}, seeds=[3, 5]))
    runs = planned_runs(study, tmp_path)
    assert [run.name for run in runs] == [
        "num_generations=2,lora=null-s3",
        "num_generations=2,lora=r-8-s3",
        "num_generations=4,lora=null-s3",
        "num_generations=4,lora=r-8-s3",
        "num_generations=2,lora=null-s5",
        "num_generations=2,lora=r-8-s5",
        "num_generations=4,lora=null-s5",
        "num_generations=4,lora=r-8-s5",
    ]
    assert runs[3].config.grpo["num_generations"] == 4
    assert runs[3].config.lora == {"r": 8}
    assert runs[4].config.seed == 5


def test_settings_of_the_study_the_arm_and_the_command_line_are_put_on_top_of_each_other(write, tmp_path):
    study = load_study(
        write(
            set={"grpo.max_steps": 9, "grpo.temperature": 0.9, "rewards": [{"name": "exact_match"}]},
            arms={"a": {}, "b": {"grpo.temperature": 0.8, "rewards.0.weight": 2.0}},
            seeds=[1],
        )
    )
    a, b = planned_runs(study, tmp_path, ["grpo.max_steps=3"])
    assert (a.config.grpo["max_steps"], a.config.grpo["temperature"], a.config.rewards[0].weight) == (3, 0.9, 1.0)
    assert (b.config.grpo["max_steps"], b.config.grpo["temperature"], b.config.rewards[0].weight) == (3, 0.8, 2.0)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "either `arms`"),
        ({"arms": {"a": {}}, "grid": {"seed": [1]}}, "either `arms`"),
        ({"arms": {"a": {"seed": 3}}}, "`seeds` decide it"),
        ({"arms": {"a": {}}, "seeds": [1, 1]}, "hold one twice"),
        ({"arms": {"a": {}}, "reference": "b"}, "unknown arm 'b'"),
        ({"arms": {"a": {}}, "grud": {}}, "did you mean 'grid'"),
        ({"arms": {"a": {}}, "contrasts": [{"a": "a", "b": "a", "metric": "m", "better": "lower"}]}, "with itself"),
    ],
)
def test_what_makes_no_sense_is_refused(write, section, message):
    with pytest.raises(ConfigError, match=message):
        load_study(write(**section))


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({"a": {"grpo.num_generations": 3}}, "the arm a: grpo.num_generations is 3"),
        ({"a": {"modle": "embedded"}}, "the arm a of .*did you mean 'model'"),
        ({"a": {"rewards": ["exact_mach"]}}, "the arm a: unknown reward 'exact_mach'; did you mean 'exact_match'"),
        ({"a": {"rewards": [{"name": "length"}]}}, "the arm a: the reward length needs the option longest"),
        ({"a": {"task": "arithmetic_formt"}}, "the arm a: unknown task 'arithmetic_formt'"),
        ({"a": {"task": {"name": "gsm8k", "options": {"anwser": "x"}}}}, "the arm a: .*did you mean 'answer'"),
        ({"a": {}, "b": {"grpo.max_steps": 4}}, "one and the same config"),
        ({"a/b": {}, "a b": {"grpo.beta": 0.1}}, "name the arms apart"),
        ({"a": {"model.path.x": 1}}, "the arm a: model.path is 'embedded', which has no keys"),
    ],
)
def test_an_arm_that_cannot_be_trained_is_refused_by_name(write, tmp_path, arms, message):
    study = load_study(write(arms=arms))
    with pytest.raises(ConfigError, match=message):
        planned_runs(study, tmp_path)


def test_other_kinds_of_files_are_told_apart(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("study: {name: x}")
    with pytest.raises(ConfigError, match="grpodyn ablate"):
        load_study(path)
    path.write_text("model: embedded")
    with pytest.raises(ConfigError, match="grpodyn record"):
        load_study(path)


def test_fewer_arms_and_other_seeds(two_arms):
    one = restricted(two_arms, arms=["kl"], seeds=5)
    assert list(one.every_arm()) == ["kl"]
    assert (one.seeds, one.contrasts, one.reference_arm) == ([1, 2, 3, 4, 5], [], "kl")
    assert restricted(two_arms, seeds=2).seeds == [1, 2]
    with pytest.raises(UnknownNameError, match="did you mean 'none'"):
        restricted(two_arms, arms=["non"])


def test_one_seed_for_all_is_refused(two_arms, tmp_path):
    with pytest.raises(ConfigError, match="--seeds"):
        planned_runs(two_arms, tmp_path, ["seed=7"])
