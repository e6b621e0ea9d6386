"""Arms told apart by their seeds, or not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from grpodyn.arms.separation import adjusted, detectable, separation

values = st.lists(st.floats(-10, 10), min_size=2, max_size=6)


@settings(deadline=None)
@given(values, values)
def test_p_is_that_of_the_pooled_t_test(a: list[float], b: list[float]) -> None:
    found = separation(a, b)
    assert found.difference.value == pytest.approx(np.mean(b) - np.mean(a), abs=1e-9)
    if min(np.var(a), np.var(b)) > 1e-6:
        assert found.p == pytest.approx(ttest_ind(b, a).pvalue, abs=1e-9)
        assert found.difference.contains(0) == (found.p > 0.05)


def test_a50_an_effect_under_the_spread_of_seeds_is_not_separable() -> None:
    found = separation([0.60, 0.70, 0.65], [0.63, 0.74, 0.66])
    assert not found.separable
    assert found.verdict.startswith("not separable: 3 and 3 runs see a difference of 0.1")
    # The interval is wider than the effect, and what could have been seen larger still.
    assert found.detectable > found.difference.high - found.difference.value


def test_one_run_against_several_is_judged_by_their_spread() -> None:
    # s = 1, error √(1 + 1/3), t(2) = 4.303.
    found = separation([1.0, 2.0, 3.0], [2.0])
    assert found.difference.high == pytest.approx(4.3027 * math.sqrt(4 / 3), rel=1e-3)


def test_one_run_each_says_so() -> None:
    found = separation([1.0], [9.0])
    assert not found.separable
    assert math.isnan(found.p)
    assert not found.difference.known
    assert "one run each" in found.verdict


def test_equal_runs_have_no_spread_to_be_judged_by() -> None:
    found = separation([1.0, 1.0], [1.0, 1.0])
    assert math.isnan(found.p)
    assert not found.separable
    assert found.detectable == 0


def test_the_detectable_difference_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(0)
    shift = detectable(math.sqrt(2 / 4), 6)
    a, b = rng.normal(0, 1, (20_000, 4)), rng.normal(shift, 1, (20_000, 4))
    assert np.mean(ttest_ind(a, b, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)


def test_a_family_errs_as_rarely_as_one() -> None:
    family = adjusted([separation([0.0, 0.1, 0.2], [0.4, 0.5, 0.6]), separation([0.0, 0.1], [0.0, 0.1])])
    assert family[0].p == pytest.approx(2 * ttest_ind([0.0, 0.1, 0.2], [0.4, 0.5, 0.6]).pvalue)
    assert family[1].p == 1
