"""Ranks from singular values: identities of the definitions, bounds, and degenerate input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.spectra.ranks import effective_rank, energy_rank, stable_rank

positive = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30).map(np.array)


@pytest.mark.parametrize(
    ("values", "effective", "stable"),
    [
        ((1, 1, 1, 1), 4.0, 4.0),
        # p = (¾, ¼): exp(¾ ln 4/3 + ¼ ln 4) = 4/3^¾ = 1.754765; 10/9.
        ((3, 1), 1.754765, 1.111111),
        # p = (4, 2, 1)/7: exp(ln 7 − (4 ln 4 + 2 ln 2)/7) = 7/2^(10/7) = 2.600490; 21/16.
        ((4, 2, 1), 2.600490, 1.3125),
        ((5,), 1.0, 1.0),
        ((5, 0, 0), 1.0, 1.0),
    ],
)
def test_identities(values: tuple[int, ...], effective: float, stable: float):
    assert effective_rank(np.array(values, float)) == pytest.approx(effective, abs=5e-7)
    assert stable_rank(np.array(values, float)) == pytest.approx(stable, abs=5e-7)


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        # Energies 9 and 1 of 10: the first holds exactly 90 %.
        ((3, 1), 0.9, 1),
        ((3, 1), 0.91, 2),
        # Energies 16, 4, 1 of 21: 76 %, 95 %, 100 %.
        ((4, 2, 1), 0.76, 1),
        ((4, 2, 1), 0.9, 2),
        ((4, 2, 1), 1.0, 3),
        ((1,) * 10, 0.9, 9),
        ((2, 0, 0), 1.0, 1),
    ],
)
def test_energy_rank(values: tuple[int, ...], fraction: float, expected: int):
    assert energy_rank(np.array(values, float), fraction) == expected


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0, 0.0]])
def test_zero_matrix_has_rank_zero(values: list[float]):
    s = np.array(values)
    assert (effective_rank(s), stable_rank(s), energy_rank(s, 0.9)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_is_nan(bad: float):
    s = np.array([3.0, bad, 1.0])
    assert np.isnan([effective_rank(s), stable_rank(s), energy_rank(s, 0.9)]).all()


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, np.nan])
def test_fraction_out_of_range(fraction: float):
    with pytest.raises(ValueError, match="outside"):
        energy_rank(np.array([1.0]), fraction)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_units(scale: float):
    s = np.array([4.0, 2.0, 1.0]) * scale
    assert effective_rank(s) == pytest.approx(2.600490, abs=5e-7)
    assert stable_rank(s) == pytest.approx(1.3125)
    assert energy_rank(s, 0.9) == 2


@given(positive)
def test_bounds(s: np.ndarray):
    # With q the energies, stable rank = 1/max q <= exp H(q); and σ is flatter than σ², so exp H(q) <= effective rank.
    n = len(s) * (1 + 1e-9)
    assert 1.0 - 1e-9 <= stable_rank(s) <= effective_rank(s) * (1 + 1e-9) <= n * (1 + 1e-9)
    assert 1 <= energy_rank(s, 0.5) <= energy_rank(s, 0.9) <= energy_rank(s, 1.0) <= n


@given(positive, st.floats(1e-3, 1e3), st.randoms(use_true_random=False))
def test_unit_and_order_do_not_matter(s: np.ndarray, scale: float, random):
    shuffled = s.copy()
    random.shuffle(shuffled)
    for other in (s * scale, shuffled, np.append(s, 0.0)):
        assert effective_rank(other) == pytest.approx(effective_rank(s), rel=1e-9)
        assert stable_rank(other) == pytest.approx(stable_rank(s), rel=1e-9)
        assert energy_rank(other, 0.9) == energy_rank(s, 0.9)


@given(st.integers(1, 40), st.floats(1e-6, 1e6))
def test_equal_values(n: int, value: float):
    s = np.full(n, value)
    assert effective_rank(s) == pytest.approx(n)
    assert stable_rank(s) == pytest.approx(n)
    assert energy_rank(s, 0.9) == np.ceil(0.9 * n - 1e-9)
