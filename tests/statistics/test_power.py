import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from grpodyn.errors import UsageError
from grpodyn.statistics import detectable_difference, power, required_pairs


# G*Power 3.1, difference between two dependent means, two-sided α = .05; e.g. Cohen (1988) gives the same sizes.
@pytest.mark.parametrize(
    ("effect", "chance", "pairs"), [(0.2, 0.8, 199), (0.5, 0.8, 34), (0.8, 0.8, 15), (0.5, 0.95, 54)]
)
def test_published_sample_sizes(effect, chance, pairs):
    assert required_pairs(effect, 1.0, chance=chance) == pairs


@pytest.mark.parametrize("pairs", [3, 5, 10])
def test_power_is_what_simulation_gives(pairs):
    rng = np.random.default_rng(pairs)
    draws = rng.normal(1.0, 1.0, (40_000, pairs))
    ratio = draws.mean(1) / (draws.std(1, ddof=1) / np.sqrt(pairs))
    assert power(1.0, 1.0, pairs) == pytest.approx(np.mean(np.abs(ratio) > t.isf(0.025, pairs - 1)), abs=0.01)
    one_sided = np.mean(ratio > t.isf(0.05, pairs - 1))
    assert power(1.0, 1.0, pairs, two_sided=False) == pytest.approx(one_sided, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 400), st.floats(0.01, 10), st.sampled_from([0.5, 0.8, 0.95]), st.booleans())
def test_the_detectable_difference_is_seen_as_often_as_asked(pairs, sd, chance, two_sided):
    difference = detectable_difference(sd, pairs, chance=chance, two_sided=two_sided)
    assert power(difference, sd, pairs, two_sided=two_sided) == pytest.approx(chance, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 3))
def test_required_pairs_are_the_fewest(effect):
    pairs = required_pairs(effect, 1.0)
    assert power(effect, 1.0, pairs) >= 0.8
    assert pairs == 2 or power(effect, 1.0, pairs - 1) < 0.8


def test_of_no_difference_power_is_the_error_rate():
    assert power(0.0, 1.0, 10) == pytest.approx(0.05)


def test_without_spread_any_difference_shows():
    assert detectable_difference(0.0, 3) == 0


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="no number of pairs shows"):
        required_pairs(0.0, 1.0)
    with pytest.raises(UsageError, match="needs more than"):
        required_pairs(1e-6, 1.0)
    with pytest.raises(UsageError, match="1 pairs have no spread"):
        detectable_difference(1.0, 1)
    with pytest.raises(UsageError, match="expected sd > 0"):
        power(1.0, 0.0, 5)
