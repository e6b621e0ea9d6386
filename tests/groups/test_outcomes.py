"""Which completions were right, and which groups are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from grpodyn.errors import MissingDataError, UnknownNameError
from grpodyn.groups import outcomes
from grpodyn.groups.one_run import describe
from grpodyn.groups.outcomes import TOTAL
from tests.simulation.recorded import record, rollout


def table(run, outcome=None):
    read = outcomes.read(run, outcome)
    return describe(read, path="run", run_id="r", status="finished", asked=(2,), target=0.4)


def test_rewards_of_two_values_tell_right_from_wrong(tmp_path: Path) -> None:
    run = record(tmp_path / "run", rollouts={1: rollout([[1, 0], [0, 0]], [7, 8]), 2: rollout([[1, 1], [0, 1]])})
    read = outcomes.read(run)
    assert (read.outcome, read.g, read.left_out) == (TOTAL, 2, 0)
    assert read.right is not None
    assert read.right.tolist() == [1, 0, 2, 1]
    assert (read.step.tolist(), read.prompt.tolist()) == ([1, 1, 2, 2], [7, 8, 0, 1])


def test_a02_groups_are_judged_by_their_own_spread_not_by_that_of_a_part(tmp_path: Path) -> None:
    # Reward x varies between prompts (its std over the batch is large), never within a group.
    parts = np.array([[[5.0, 0.4]] * 4, [[-5.0, 0.4]] * 4, [[0.4, 0.4]] * 4])
    run = record(
        tmp_path / "run",
        rollouts={1: rollout(parts.sum(-1), parts=parts)},
        reward_functions=["x", "y"],
    )
    found = table(run)
    assert found.groups[0].dead == found.groups[-1].dead == 1
    assert found.groups[0].useful_per_1000 == 0
    assert any("no reward takes two values" in note for note in found.notes)


def test_a02_parts_that_cancel_are_dead_by_total_and_useful_by_outcome(tmp_path: Path) -> None:
    # Right answers earn 1 and lose 1 for their length: the group mixes right and wrong and earns 0 throughout.
    parts = np.array([[[1.0, -1.0], [0.0, 0.0]], [[1.0, 0.5], [0.0, 0.0]]])
    run = record(
        tmp_path / "run", rollouts={1: rollout(parts.sum(-1), parts=parts)}, reward_functions=["accuracy", "length"]
    )
    found = table(run)
    assert found.by_outcome is not None
    assert found.by_outcome.outcome == "accuracy"
    assert found.by_outcome.groups[0].dead == 0
    (by_total,) = found.groups
    assert by_total.dead == 0.5
    # Dead, yet neither all right nor all wrong.
    assert (by_total.all_right, by_total.all_wrong) == (0, 0)
    assert any("cancel" in note for note in found.notes)


def test_spread_that_is_not_the_outcomes_is_named(tmp_path: Path) -> None:
    parts = np.array([[[1.0, 0.1], [1.0, 0.2]], [[0.0, 0.1], [0.0, 0.1]]])
    run = record(
        tmp_path / "run", rollouts={1: rollout(parts.sum(-1), parts=parts)}, reward_functions=["correct", "style"]
    )
    found = table(run)
    assert found.by_outcome is not None
    assert found.by_outcome.groups[0].dead == 1
    assert found.groups[0].dead == 0.5
    assert found.groups[0].all_wrong == 0.5
    assert any("1 of 2 groups have spread" in note for note in found.notes)


def test_continuous_rewards_have_no_outcome_but_dead_groups(tmp_path: Path) -> None:
    run = record(tmp_path / "run", rollouts={1: rollout([[0.4, 0.4], [0.1, 0.9], [0.5, 0.3]])})
    found = table(run)
    assert found.by_outcome is None
    assert found.implied is None
    assert found.groups[0].dead == pytest.approx(1 / 3)
    assert np.isnan(found.groups[0].all_right)


def test_a_name_that_speaks_of_being_right_goes_first_and_the_other_is_told(tmp_path: Path) -> None:
    parts = np.array([[[1.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    run = record(
        tmp_path / "run", rollouts={1: rollout(parts.sum(-1), parts=parts)}, reward_functions=["format", "accuracy"]
    )
    read = outcomes.read(run)
    assert read.outcome == "accuracy"
    assert any("format would do too" in note for note in read.notes)
    assert outcomes.read(run, "format").outcome == "format"
    with pytest.raises(UnknownNameError, match="did you mean 'accuracy'"):
        outcomes.read(run, "acuracy")


def test_groups_with_a_completion_that_was_not_scored_are_left_out(tmp_path: Path) -> None:
    # The second batch has fewer prompts: what is not there is no group that was left out.
    run = record(tmp_path / "run", rollouts={1: rollout([[1, 0], [np.nan, 1], [0, 0]]), 2: rollout([[1, 1]])})
    read = outcomes.read(run)
    assert (len(read), read.left_out) == (3, 1)


def test_a_run_without_rollouts_says_how_to_record_them(tmp_path: Path) -> None:
    run = record(tmp_path / "run", metrics={1: {"reward": 0.5}})
    with pytest.raises(MissingDataError, match="presets `standard` and `full` record them"):
        outcomes.read(run)


def test_steps_that_hold_nothing(tmp_path: Path) -> None:
    run = record(tmp_path / "run", rollouts={3: rollout([[1, 0]])})
    with pytest.raises(MissingDataError, match="from step 10 to the last; the run holds steps 3 to 3"):
        outcomes.read(run).between(10, None)


@pytest.mark.parametrize(("value", "right"), [(0.0, [0, 0]), (1.0, [2, 2])])
def test_a_hopeless_or_mastered_task_is_not_judged_by_its_format(
    tmp_path: Path, value: float, right: list[int]
) -> None:
    # All answers are wrong (or all right), half of them in the format: the name of the format speaks of an answer too.
    parts = np.array([[[1.0, value], [0.0, value]], [[0.0, value], [1.0, value]]])
    run = record(
        tmp_path / "run",
        rollouts={1: rollout(parts.sum(-1), parts=parts)},
        reward_functions=["answer_format", "exact_match"],
    )
    read = outcomes.read(run)
    assert read.outcome == "exact_match"
    assert read.right is not None
    assert read.right.tolist() == right
    (note,) = read.notes
    assert f"exact_match says, it gave every completion {value:g}; answer_format would do too" in note


def test_a_choice_without_a_telling_name_is_said(tmp_path: Path) -> None:
    # The accuracy is graded, so that the format is what takes two values.
    parts = np.array([[[1.0, 0.2], [0.0, 0.6]], [[0.0, 1.0], [1.0, 0.0]]])
    run = record(
        tmp_path / "run", rollouts={1: rollout(parts.sum(-1), parts=parts)}, reward_functions=["format", "accuracy"]
    )
    read = outcomes.read(run)
    assert read.outcome == "format"
    assert any("no name of a reward of one or two values speaks of being right" in note for note in read.notes)


def test_only_the_greatest_value_of_an_outcome_that_is_asked_for_means_right(tmp_path: Path) -> None:
    parts = np.array([[[0.0, 0.1], [0.6, 0.2], [0.6, 0.3], [1.0, 0.4]]])
    run = record(
        tmp_path / "run", rollouts={1: rollout(parts.sum(-1), parts=parts)}, reward_functions=["graded", "style"]
    )
    read = outcomes.read(run, "graded")
    assert read.correct is not None
    assert read.correct.tolist() == [[False, False, False, True]]
