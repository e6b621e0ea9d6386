import math
from dataclasses import replace
from pathlib import Path

import pytest

from grpodyn.ablation.results import load
from grpodyn.placement.judging import (
    Choice,
    Predictor,
    by_chance,
    choose,
    gains,
    half_widths,
    leave_one_out,
)

PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "lora-advice"

GAINED = {"layer 0": 0.5, "layer 1": 0.4, "layer 2": 0.1, "q_proj": 0.3, "up_proj": 0.2, "down_proj": 0.25}
FIRST, SECOND = Predictor("first", "trace"), Predictor("second", "two checkpoints")


def only(choices: list[Choice], family: str) -> Choice:
    (found,) = [choice for choice in choices if choice.family == family]
    return found


def test_what_a_leader_loses_is_told_by_training_it():
    scores = {"layer 0": 1.0, "layer 1": 3.0, "layer 2": 2.0, "q_proj": 9.0, "up_proj": 1.0, "down_proj": 5.0}
    found = choose(FIRST, "t", scores, GAINED)
    layers, modules = only(found, "layers"), only(found, "modules")
    assert (layers.leader, modules.leader) == ("layer 1", "q_proj")
    assert layers.lost == pytest.approx(0.1)
    assert layers.lost_share == pytest.approx(0.2)
    assert layers.correlation == pytest.approx(-0.5)  # ranks (1, 3, 2) beside (3, 2, 1)
    assert modules.lost == 0.0
    assert modules.correlation == pytest.approx(1.0)


def test_a_part_without_a_score_is_not_chosen_and_one_that_was_not_trained_neither():
    found = only(choose(FIRST, "t", {"layer 2": 0.1, "layer 0": math.nan, "layer 9": 7.0}, GAINED), "layers")
    assert found.leader == "layer 2"
    assert found.lost_share == pytest.approx(0.8)
    assert math.isnan(found.correlation)


def test_no_choice_among_fewer_than_three_parts_or_without_any_score():
    assert choose(FIRST, "t", {"layer 0": 1.0}, {"layer 0": 0.5, "layer 1": 0.4}) == []
    assert choose(FIRST, "t", {}, GAINED) == []


def test_chance_is_the_mean_over_all_parts():
    assert by_chance("t", GAINED) == pytest.approx({"layers": (0 + 0.2 + 0.8) / 3, "modules": (0 + 1 / 3 + 1 / 6) / 3})


def choice(predictor: Predictor, task: str, lost_share: float) -> Choice:
    return Choice(predictor, task, "layers", "layer 0", lost_share / 2, lost_share, math.nan)


def test_the_predictor_is_picked_without_the_task_that_it_is_scored_on():
    losses = {"a": (0.0, 0.3), "b": (0.1, 0.2), "c": (0.9, 0.1)}
    choices = [
        choice(predictor, task, lost[i]) for task, lost in losses.items() for i, predictor in enumerate((FIRST, SECOND))
    ]
    found = {left.task: left for left in leave_one_out(choices)}
    # Without c, `first` lost .05 and `second` .25 on average; with c `first` is the worse one.
    assert found["c"].chosen == (FIRST,)
    assert found["c"].lost_share == 0.9
    assert found["a"].chosen == (SECOND,)
    assert found["b"].chosen == (SECOND,)


def test_a_predictor_that_is_silent_on_a_task_is_not_picked():
    choices = [choice(FIRST, task, 0.2) for task in "abc"] + [choice(SECOND, "a", 0.0)]
    assert {left.chosen for left in leave_one_out(choices)} == {(FIRST,)}
    assert leave_one_out(choices[:1]) == []


def test_predictors_that_lose_equally_little_elsewhere_are_all_chosen():
    losses = {"a": (0.1, 0.1), "b": (0.2, 0.2), "c": (0.8, 0.4)}
    choices = [
        choice(predictor, task, lost[i]) for task, lost in losses.items() for i, predictor in enumerate((FIRST, SECOND))
    ]
    found = {left.task: left for left in leave_one_out(choices)}
    assert found["c"].chosen == (FIRST, SECOND)
    assert found["c"].lost_share == pytest.approx(0.6)
    assert found["a"].chosen == (SECOND,)


def test_a_task_on_which_no_part_gains_says_nothing_of_predictors():
    assert choose(FIRST, "t", {"layer 0": 1.0}, dict.fromkeys(("layer 0", "layer 1", "layer 2"), 0.0)) == []


def test_a_gain_is_over_the_untouched_base_and_arms_that_train_no_single_part_have_none():
    # The published study, with three of its arms under the names of single parts; figures as in its page.
    parts = {"last-block": "layer:7", "mlp-only": "type:up_proj", "random-same-budget": "layer:0"}
    published = load(PUBLISHED)
    renamed = [replace(arm, arm=parts.get(arm.arm, arm.arm)) for arm in published.arms]
    unfinished = ("layer:0", "joint_commands")
    arms = [
        replace(arm, accuracy=replace(arm.accuracy, value=math.nan)) if (arm.arm, arm.task) == unfinished else arm
        for arm in renamed
    ]
    result = replace(published, arms=tuple(arms))
    found, widths = gains(result), half_widths(result)
    assert list(found) == list(widths) == ["arithmetic_format", "string_commands", "joint_commands"]
    assert found["string_commands"] == pytest.approx({"layer 7": 0.075, "up_proj": 0.597, "layer 0": 0.580}, abs=2e-3)
    assert widths["string_commands"] == pytest.approx({"layer 7": 0.024, "up_proj": 0.187, "layer 0": 0.076}, abs=2e-3)
    # An arm without a finished seed has no gain.
    assert found["joint_commands"].keys() == widths["joint_commands"].keys() == {"layer 7", "up_proj"}
