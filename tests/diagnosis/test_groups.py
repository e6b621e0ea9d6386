"""Statistics of rollouts, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.diagnosis.groups import groups_of

STEPS = np.array([1, 2])


def test_dead_groups_right_wrong_and_neither() -> None:
    # Four groups a batch: all wrong, all right, mixed, and all alike in the middle.
    batch = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [0.4, 0.4, 0.4, 0.4]]
    found = groups_of(STEPS, np.array([batch, batch], float), None, None, ())
    assert found is not None
    assert found.dead.values.tolist() == [0.75, 0.75]
    assert found.dead_low.values.tolist() == [0.25, 0.25]
    assert found.dead_high.values.tolist() == [0.25, 0.25]


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.4, 0.0, 0.0)])
def test_one_value_throughout(value, low, high) -> None:
    found = groups_of(STEPS, np.full((2, 3, 4), value), None, None, ())
    assert found is not None
    assert (found.dead_low.values[0], found.dead_high.values[0]) == (low, high)


def test_covariance_within_groups_leaves_out_what_lies_between_them() -> None:
    # Two parts that are equal between prompts and opposite within them.
    a = np.array([[[0.0, 1.0], [10.0, 11.0]]])
    b = np.array([[[1.0, 0.0], [11.0, 10.0]]])
    found = groups_of(np.array([1]), a + b, np.stack([a, b], axis=-1), None, ("a", "b"))
    assert found is not None
    np.testing.assert_allclose(found.within, [[0.25, -0.25], [-0.25, 0.25]])


def test_lengths_of_right_and_wrong() -> None:
    total = np.array([[[1, 1, 1, 0, 0, 0]]], float)
    lengths = np.array([[[10, 20, 30, 100, 200, 300]]], float)
    found = groups_of(np.array([1]), total, total[..., None], lengths, ("accuracy",))
    assert found is not None
    assert found.length_right.values.tolist() == [20.0]
    assert found.length_wrong.values.tolist() == [200.0]


def test_rewards_that_are_missing() -> None:
    assert groups_of(STEPS, np.full((2, 3, 4), np.nan), None, None, ()) is None
    rewards = np.zeros((2, 3, 4, 2))
    rewards[..., 1] = np.nan
    found = groups_of(STEPS, rewards[..., 0], rewards, None, ("a", "b"))
    assert found is not None
    assert np.isnan(found.values[1]).all()


def test_a_completion_without_a_reward_leaves_out_its_group_alone() -> None:
    # From the third batch on one completion of the first group has no reward; the second group learns from there on.
    total = np.zeros((200, 2, 4))
    total[2:, 1] = [0, 1, 0, 1]
    total[2:, 0, 3] = np.nan
    lengths = np.broadcast_to([10.0, 20.0, 30.0, 40.0], total.shape)
    found = groups_of(np.arange(200), total, total[..., None], lengths, ("accuracy",))
    assert found is not None
    assert found.dead.values.tolist() == [1.0, 1.0] + [0.0] * 198
    assert found.dead_low.values.tolist() == [1.0, 1.0] + [0.0] * 198
    # Half of the whole group is right; the zeros beside the missing reward count for nothing.
    assert found.reward.values.tolist() == [0.0, 0.0] + [0.5] * 198
    # 202 whole groups, of which 198 have a variance of 1/4.
    np.testing.assert_allclose(found.within, [[198 / 202 * 0.25]])


def test_missing_rewards_of_a_group_leave_its_lengths_out() -> None:
    total = np.array([[[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, np.nan]]], float)
    lengths = np.array([[[10, 20, 30, 100, 200, 300], [999] * 6]], float)
    found = groups_of(np.array([1]), total, total[..., None], lengths, ("accuracy",))
    assert found is not None
    assert (found.length_right.values.tolist(), found.length_wrong.values.tolist()) == ([20.0], [200.0])


def test_batches_with_fewer_prompts_are_batches() -> None:
    # The second batch has one prompt less: its place is empty.
    total = np.array([[[0, 1], [1, 1]], [[0, 0], [np.nan, np.nan]]])
    found = groups_of(STEPS, total, None, None, ())
    assert found is not None
    assert found.dead.values.tolist() == [0.5, 1.0]


def test_what_a_few_batches_hold_is_not_the_run() -> None:
    # Whole groups in 6 of 20 batches, the first ones: their last is not the end.
    total = np.zeros((20, 2, 4))
    total[6:, :, 0] = np.nan
    assert groups_of(np.arange(20), total, None, None, ()) is None
