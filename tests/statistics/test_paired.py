import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test, ttest_rel

from grpodyn.errors import UsageError
from grpodyn.statistics import mcnemar, non_inferiority, paired_test, tost

# Differences of Student's sleep data, Biometrika 6 (1908) 1: t = 4.0621 on 9 degrees, two-sided p = .002833.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_student_1908():
    result = paired_test(SECOND, FIRST)
    assert result.p == pytest.approx(0.002833, abs=1e-6)
    assert result.difference.value == pytest.approx(1.58)
    assert result.difference.low == pytest.approx(0.7001142, abs=1e-6)
    assert result.difference.high == pytest.approx(2.4598858, abs=1e-6)
    assert result.n == 10


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_agrees_with_scipy(alternative):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    assert paired_test(a, b, alternative=alternative).p == pytest.approx(
        ttest_rel(a, b, alternative=alternative).pvalue
    )
    flips = permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", alternative=alternative
    )
    assert paired_test(a, b, alternative=alternative, method="sign-flip").p == pytest.approx(flips.pvalue)


def test_sign_flips_by_hand():
    # Of the 8 sign patterns of (1, 2, 3) two reach |sum| = 6.
    assert paired_test([1, 2, 3], [0, 0, 0], method="sign-flip").p == 0.25
    assert paired_test([1, 2, 3], [0, 0, 0], method="sign-flip", alternative="greater").p == 0.125


def test_many_flips_are_sampled_and_agree_with_t():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.2, 1, 60), rng.normal(0, 1, 60)
    assert paired_test(a, b, method="sign-flip").p == pytest.approx(paired_test(a, b).p, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_mcnemar_is_the_sign_test_of_the_changed(pairs):
    a, b = zip(*pairs, strict=True)
    up = sum(x > y for x, y in pairs)
    changed = sum(x != y for x, y in pairs)
    expected = binomtest(up, changed).pvalue if changed else 1.0
    assert mcnemar(a, b) == pytest.approx(expected)


def test_without_spread_there_is_no_p():
    assert math.isnan(paired_test([1.0, 1.0], [0.5, 0.5]).p)
    assert math.isnan(paired_test([1.0], [0.5]).p)
    # 0.1 + 0.2 is not 0.3: the differences are equal but for rounding.
    assert math.isnan(paired_test([0.1 + 0.2, 0.3, 0.3], [0.0, 0.0, 0.0]).p)
    assert math.isnan(non_inferiority([0.9, 0.8, 0.7], [0.9, 0.8, 0.7], 0.05).p)
    assert math.isnan(paired_test([1.0, 1.0], [1.0, 1.0], method="sign-flip").p)


def test_equivalence_is_an_interval_inside_the_margin():
    rng = np.random.default_rng(2)
    for shift, margin in itertools.product((0.0, 0.3, 0.6), (0.2, 0.5, 1.0)):
        a = rng.normal(shift, 0.5, 12)
        result = tost(a, np.zeros(12), margin)
        inside = -margin < result.difference.low and result.difference.high < margin
        assert result.equivalent == inside
        assert result.difference.level == pytest.approx(0.9)


def test_non_inferiority_is_the_lower_bound_above_minus_the_margin():
    rng = np.random.default_rng(3)
    for shift in (-0.4, -0.2, 0.0):
        a = rng.normal(shift, 0.3, 10)
        result = non_inferiority(a, np.zeros(10), 0.3, level=0.9)
        assert (result.p < 0.05) == (result.difference.low > -0.3)


def test_a_margin_of_nothing_is_refused():
    with pytest.raises(UsageError, match="margin=0 makes no sense"):
        tost([1, 2], [1, 2], 0)
    with pytest.raises(UsageError, match="margin=-1 makes no sense"):
        non_inferiority([1, 2], [1, 2], -1)
