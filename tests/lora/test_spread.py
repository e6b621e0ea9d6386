from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.lora.spread import gini, max_over_min, top_share

POSITIVE = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40)


def test_goldens_by_hand() -> None:
    # Gini of (1, 2, 3, 4): mean absolute difference over all 16 ordered pairs 20/16, over twice the mean, 5: 0.25.
    assert gini([1, 2, 3, 4]) == pytest.approx(0.25)
    # ⌈0.3 · 4⌉ = 2 groups hold 3 + 4 of 10.
    assert top_share([1, 2, 3, 4]) == pytest.approx(0.7)
    assert max_over_min([1, 2, 3, 4]) == 4


def test_the_published_example_of_a_flat_spread() -> None:
    # arXiv 2605.07366: the top 30 % of layers held 35.7 % of the signal under GRPO; 9 of 28 equal ones hold 32.1 %.
    assert top_share(np.ones(28)) == pytest.approx(9 / 28)


@pytest.mark.parametrize("function", [max_over_min, top_share, gini])
@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_what_has_no_spread_is_nan(function, values) -> None:
    assert math.isnan(function(values))


def test_a_measured_zero_is_not_missing() -> None:
    assert max_over_min([0.0, 1.0]) == math.inf
    assert gini([0.0, 1.0]) == pytest.approx(0.5)
    assert max_over_min([math.nan, 1.0, 2.0]) == 2


@given(POSITIVE)
def test_gini_is_the_mean_absolute_difference(values) -> None:
    array = np.array(values)
    slow = np.abs(array[:, None] - array[None, :]).mean() / (2 * array.mean())
    assert gini(values) == pytest.approx(slow, abs=1e-9)


@given(POSITIVE, st.floats(1e-3, 1e3), st.randoms())
def test_scale_and_order_do_not_matter(values, scale, random) -> None:
    shuffled = [scale * value for value in values]
    random.shuffle(shuffled)
    for function in (max_over_min, top_share, gini):
        assert function(shuffled) == pytest.approx(function(values), rel=1e-9, abs=1e-9)


@given(POSITIVE)
def test_bounds(values) -> None:
    n = len(values)
    assert 0 <= gini(values) <= (n - 1) / n
    assert math.ceil(round(0.3 * n, 9)) / n <= top_share(values) + 1e-12 <= 1 + 1e-9
    assert max_over_min(values) >= 1
