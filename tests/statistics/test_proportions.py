import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from grpodyn.errors import UsageError
from grpodyn.statistics import paired_share_interval, wilson


# Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3.
@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_table(k, n, low, high):
    interval = wilson(k, n)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(counts, level):
    k, n = counts
    other = binomtest(k, n).proportion_ci(level, method="wilson")
    interval = wilson(k, n, level)
    assert interval.low == pytest.approx(other.low, abs=1e-12)
    assert interval.high == pytest.approx(other.high, abs=1e-12)
    assert interval.contains(k / n)


def test_of_no_trials_nothing_is_known():
    interval = wilson(0, 0)
    assert math.isnan(interval.value)
    assert (interval.low, interval.high) == (0.0, 1.0)


@pytest.mark.parametrize(("k", "n"), [(3, 2), (-1, 5)])
def test_counts_that_do_not_fit_are_refused(k, n):
    with pytest.raises(UsageError, match="successes of"):
        wilson(k, n)


def test_paired_shares_by_hand():
    # 2 of 6 right in a alone, none in b alone: p̃ = 3/8 and 1/8; middle .25, SE √((.5 − .0625)/8) = .23385.
    interval = paired_share_interval([1, 1, 1, 0, 0, 1], [0, 1, 0, 0, 0, 1])
    assert interval.value == pytest.approx(1 / 3)
    assert interval.low == pytest.approx(0.25 - 1.959964 * 0.233854, abs=1e-5)
    assert interval.high == pytest.approx(0.25 + 1.959964 * 0.233854, abs=1e-5)


def test_no_change_in_fifty_items_is_no_certainty():
    interval = paired_share_interval([1] * 50, [1] * 50)
    assert interval.value == 0
    assert interval.low < -0.03
    assert interval.high > 0.03


def test_swapping_the_two_turns_the_interval_round():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 40))
    assert paired_share_interval(a, b) == paired_share_interval(b, a).scaled(-1)


def test_other_outcomes_than_0_and_1_are_refused():
    with pytest.raises(UsageError, match="other than 0 and 1"):
        paired_share_interval([0.5, 1], [0, 1])
    with pytest.raises(UsageError, match="expected the same items"):
        paired_share_interval([1, 0], [1])
