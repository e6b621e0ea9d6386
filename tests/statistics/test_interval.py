import math

import pytest

from grpodyn.errors import UsageError
from grpodyn.statistics import Interval, mean_interval


def test_a_bound_that_is_not_known_contains_nothing():
    interval = mean_interval([0.4])
    assert interval.value == 0.4
    assert not interval.known
    assert not interval.contains(0.4)


def test_a_negative_factor_turns_it_round():
    assert Interval(1.0, 0.5, 2.0, 0.9).scaled(-1) == Interval(-1.0, -2.0, -0.5, 0.9)
    assert math.copysign(1, Interval(0.0, 0.0, 0.0, 0.9).scaled(-1).low) == 1


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1, math.nan])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(UsageError, match="is no confidence"):
        mean_interval([1.0, 2.0], level)
