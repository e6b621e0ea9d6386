import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, t, ttest_1samp, ttest_rel

from grpodyn.errors import UsageError
from grpodyn.statistics import mean_interval, paired_interval, ratio_interval

numbers = st.lists(st.floats(-100, 100), min_size=3, max_size=30)


def test_of_one_two_three_by_hand():
    # mean 2, s = 1, SE 1/√3, t(2) = 4.302653
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.value == 2
    assert interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)
    assert interval.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-6)


@given(numbers, st.floats(0.5, 0.99))
def test_agrees_with_scipy(values, level):
    interval = mean_interval(values, level)
    if np.std(values) > 1e-9:
        low, high = ttest_1samp(values, 0).confidence_interval(level)
        assert interval.low == pytest.approx(low, rel=1e-9, abs=1e-9)
        assert interval.high == pytest.approx(high, rel=1e-9, abs=1e-9)
    assert interval.value == pytest.approx(np.mean(values))


def test_pairs_agree_with_scipy():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 12))
    low, high = ttest_rel(a, b).confidence_interval(0.9)
    interval = paired_interval(a, b, 0.9)
    assert (interval.low, interval.high) == pytest.approx((low, high))


@given(numbers, st.floats(-10, 10), st.floats(0.1, 10))
def test_moves_and_scales_with_the_outcomes(values, shift, scale):
    one = mean_interval(values)
    moved = mean_interval([shift + scale * value for value in values])
    for name in ("value", "low", "high"):
        assert getattr(moved, name) == pytest.approx(shift + scale * getattr(one, name), rel=1e-6, abs=1e-6)


def test_clusters_of_equal_size_are_their_means():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(8, 4))
    labels = np.repeat(np.arange(8), 4)
    assert str(mean_interval(values.ravel(), clusters=labels)) == str(mean_interval(values.mean(axis=1)))


def test_clusters_of_unequal_size_by_the_slow_formula():
    rng = np.random.default_rng(3)
    labels = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3])
    values = rng.normal(size=labels.size)
    mean = values.mean()
    squares = sum((values[labels == j].sum() - (labels == j).sum() * mean) ** 2 for j in range(4))
    error = math.sqrt(4 / 3 * squares) / labels.size
    assert mean_interval(values, clusters=labels).high == pytest.approx(mean + t.isf(0.025, 3) * error)


def test_copies_of_an_observation_add_nothing():
    values = [0.1, 0.5, 0.3, 0.9]
    once = mean_interval(values)
    thrice = mean_interval(np.repeat(values, 3), clusters=np.repeat(np.arange(4), 3))
    assert str(once) == str(thrice)


@pytest.mark.parametrize("shape", ["normal", "skewed"])
def test_bca_agrees_with_scipy(shape):
    rng = np.random.default_rng(4)
    values = rng.normal(size=60) if shape == "normal" else rng.exponential(size=60)
    other = bootstrap((values,), np.mean, n_resamples=20000, method="BCa", rng=np.random.default_rng(5))
    interval = mean_interval(values, method="bca")
    # Both ends are quantiles of draws, of each side its own.
    width = other.confidence_interval.high - other.confidence_interval.low
    assert interval.low == pytest.approx(other.confidence_interval.low, abs=0.1 * width)
    assert interval.high == pytest.approx(other.confidence_interval.high, abs=0.1 * width)


def test_bca_of_equal_outcomes_is_a_point():
    interval = mean_interval([0.5] * 20, method="bca")
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_ratio_by_inverting_the_t_test():
    rng = np.random.default_rng(6)
    b = rng.normal(10, 1, 8)
    a = 0.8 * b + rng.normal(0, 0.5, 8)
    interval = ratio_interval(a, b)
    for ratio in (interval.low, interval.high):
        assert ttest_1samp(a - ratio * b, 0).pvalue == pytest.approx(0.05, abs=1e-6)
    inside = np.linspace(interval.low + 1e-6, interval.high - 1e-6, 50)
    assert all(ttest_1samp(a - ratio * b, 0).pvalue > 0.05 for ratio in inside)


def test_ratio_to_a_gain_that_may_be_none_has_no_bounds():
    interval = ratio_interval([0.1, 0.2, 0.15], [0.3, -0.2, 0.1])
    assert (interval.low, interval.high) == (-math.inf, math.inf)


def test_missing_outcomes_are_refused():
    with pytest.raises(UsageError, match=r"1 of 3 outcomes of b are not finite \(the first: nan at index 1\)"):
        paired_interval([1, 2, 3], [1, math.nan, 3])
    with pytest.raises(UsageError, match="2 outcomes of a and 3 of b"):
        paired_interval([1, 2], [1, 2, 3])
    with pytest.raises(UsageError, match="at least one number"):
        mean_interval([])
    with pytest.raises(UsageError, match="one label an outcome"):
        mean_interval([1, 2], clusters=[0])
