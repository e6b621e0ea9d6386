import pytest

from grpodyn.ablation.protocol import ARMS, DEFAULT_ARMS, NEEDS_SOURCE, Study, load_study, restricted, without
from grpodyn.config.validation import validate
from grpodyn.errors import ConfigError, UnknownNameError


def study(**changes):
    return validate(Study, {"name": "s", "seeds": [1, 2, 3], **changes}, "here")


def test_the_defaults_fit_together():
    made = study()
    assert made.primary_arms == ["advised", "all-linear", "all-linear-same-budget", "random-same-budget"]
    assert set(DEFAULT_ARMS) <= set(ARMS)
    assert set(ARMS) >= NEEDS_SOURCE


def test_seeds_that_decided_are_not_tested_on():
    with pytest.raises(ConfigError, match="seed 2 is tested on and also used for tuning or advice"):
        study(tuning={"seeds": [2, 101]})
    with pytest.raises(ConfigError, match="seed 1 is tested on"):
        study(source={"seed": 1})


def test_more_seeds_leave_out_those_that_decided():
    made = study(source={"seed": 4}, tuning={"seeds": [6, 101]})
    assert restricted(made, arms=None, seeds=5).seeds == [1, 2, 3, 5, 7]
    assert without(1, [1, 2, 3]) == [2, 3, 4]
    assert without(2, [1, 2, 3]) == [1, 3, 4]
    assert without(4, [1, 2, 3]) == [1, 2, 3]


def test_tuning_and_comparing_on_one_split_is_refused():
    with pytest.raises(ConfigError, match="are both 'report'"):
        study(measure={"tuning_split": "report"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ["advisd"]}, "unknown arm 'advisd'; did you mean 'advised'"),
        ({"adapters": {"all-linear": "x.json"}}, "is the name of a built-in arm"),
        ({"other_seeds": [9]}, "other_seeds must be among seeds"),
        ({"tuning": {"powers": [-1, 1]}}, "leave out a rate"),
        ({"primry": []}, "unknown key `primry`"),
        ({"max_fraction": 0.0}, "max_fraction"),
    ],
)
def test_a_protocol_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        study(**changes)


def test_own_adapters_and_single_layers_are_arms():
    made = study(arms=["mine", "layer:3", "type:up_proj"], adapters={"mine": "mine.json"})
    assert made.arms == ["mine", "layer:3", "type:up_proj"]


def test_another_candidate_takes_the_place_of_the_advised_arm():
    made = study().testing("displacement-top")
    assert [contrast.a for contrast in made.primary] == ["displacement-top"] * 3
    assert made.seeds_of("displacement-top") == [1, 2, 3]


def test_fewer_and_more_seeds():
    made = study(seeds=[5, 6, 7], other_seeds=[5, 6])
    assert restricted(made, arms=None, seeds=2).seeds == [5, 6]
    assert restricted(made, arms=None, seeds=5).seeds == [5, 6, 7, 8, 9]
    assert restricted(made, arms=None, seeds=1).other_seeds == [5]
    assert restricted(made, arms=["all-linear"], seeds=None).arms == ["all-linear"]
    with pytest.raises(UnknownNameError, match="did you mean 'mlp-only'"):
        restricted(made, arms=["mlp_only"], seeds=None)


def test_a_study_file(tmp_path):
    (tmp_path / "task.yaml").write_text("model: embedded\ntask: arithmetic_format\n")
    path = tmp_path / "study.yaml"
    path.write_text("study:\n  name: two\n  tasks:\n  - {name: a, config: task.yaml}\n")
    made, configs = load_study(path)
    assert made.name == "two"
    assert configs["a"].task.name == "arithmetic_format"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: {name: s}\n", "`study.tasks` is empty"),
        ("study: {name: s}\nmodel: embedded\n", "found also model"),
        (
            "study:\n  name: s\n  tasks:\n  - {name: a, config: x}\n  - {name: a, config: x}\n",
            "two tasks have one name",
        ),
        ("study:\n  name: s\n  tasks:\n  - {name: a, config: gone.yaml}\n", "gone.yaml"),
    ],
)
def test_a_study_file_that_is_wrong(tmp_path, text, message):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_study(path)
