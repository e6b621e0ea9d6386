"""Re-sampled groups: by hand, against all sub-groups one by one, and what must hold for any rewards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.errors import UsageError
from grpodyn.groups.resampling import chance_all, chance_of_no_spread, expected_over_subgroups


def test_by_hand() -> None:
    # 2 right of 4: of the 6 pairs 1 is all right, 1 all wrong.
    assert chance_all(np.array([2]), 4, 2)[0] == pytest.approx(1 / 6)
    assert chance_all(np.array([1]), 4, 2)[0] == 0
    assert chance_all(np.array([4]), 4, 4)[0] == 1


def test_more_than_was_sampled_cannot_be_drawn() -> None:
    with pytest.raises(UsageError, match="groups of 9 cannot be drawn from 8"):
        chance_all(np.array([1]), 8, 9)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=7), st.data())
def test_no_spread_equals_all_subgroups_one_by_one(rewards: list[float], data: st.DataObject) -> None:
    g = data.draw(st.integers(1, len(rewards)))
    flat = [len(set(group)) == 1 for group in itertools.combinations(rewards, g)]
    assert chance_of_no_spread(np.array([rewards]), g)[0] == pytest.approx(np.mean(flat))


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 6), st.data())
def test_expectations_equal_all_subgroups_one_by_one(n: int, right: int, data: st.DataObject) -> None:
    right, g = min(right, n), data.draw(st.integers(1, n))
    values = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=g + 1, max_size=g + 1)))
    completions = [1] * right + [0] * (n - right)
    expected = np.mean([values[sum(group)] for group in itertools.combinations(completions, g)])
    assert expected_over_subgroups(values, n, g)[right] == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-2, 2), min_size=6, max_size=6), min_size=1, max_size=4))
def test_larger_groups_are_dead_no_more_often(rewards: list[list[float]]) -> None:
    dead = [chance_of_no_spread(np.array(rewards), g) for g in range(1, 7)]
    assert np.allclose(dead[0], 1)
    assert all((later <= earlier + 1e-12).all() for earlier, later in itertools.pairwise(dead))


def test_rounding_is_no_spread() -> None:
    assert chance_of_no_spread(np.array([[0.1 + 0.2, 0.3, 0.3]]), 3)[0] == 1


def test_it_is_unbiased_over_draws() -> None:
    # p = .3, G = 3: .3³ + .7³ = .37; recorded with 8.
    right = np.random.default_rng(0).binomial(8, 0.3, size=40_000)
    assert (chance_all(right, 8, 3) + chance_all(8 - right, 8, 3)).mean() == pytest.approx(0.37, abs=0.005)
