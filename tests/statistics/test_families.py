import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.errors import UsageError
from grpodyn.statistics import holm, simultaneous_level

ps = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_by_hand():
    # ascending .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made monotone .02 .03 .06 .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(ps, st.floats(0.001, 0.5))
def test_rejects_what_stepping_down_rejects(values, alpha):
    adjusted = holm(values)
    rejected = set()
    for position, i in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        if values[i] * (len(values) - position) > alpha:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected


@given(ps)
def test_never_below_the_raw_p_nor_above_bonferroni(values):
    for raw, adjusted in zip(values, holm(values), strict=True):
        assert raw <= adjusted <= min(1.0, len(values) * raw) + 1e-15


def test_an_unknown_p_counts_and_stays_unknown():
    adjusted = holm([0.01, math.nan, 0.02])
    assert adjusted[0] == pytest.approx(0.03)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)


def test_family_error_of_true_nulls_stays_below_alpha():
    rng = np.random.default_rng(0)
    wrong = [min(holm(list(rng.uniform(size=5)))) <= 0.05 for _ in range(4000)]
    assert np.mean(wrong) < 0.06


def test_senseless_input_is_refused():
    with pytest.raises(UsageError, match="no probability"):
        holm([1.2])
    with pytest.raises(UsageError, match="0 comparisons"):
        simultaneous_level(0.95, 0)
