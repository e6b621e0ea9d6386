"""Roots and ratios of added squares."""

import numpy as np

from grpodyn.spectra.sums import root, root_ratio


def test_root():
    np.testing.assert_array_equal(root(np.array([0.0, 25.0, np.nan, np.inf])), [0.0, 5.0, np.nan, np.nan])


def test_root_of_none():
    assert root(np.array([])).shape == (0,)


def test_root_ratio():
    above = np.array([0.0, 1.0, 4.0, 0.0, 1.0, np.nan, 1.0, np.inf])
    below = np.array([4.0, 4.0, 1.0, 0.0, 0.0, 1.0, np.nan, np.inf])
    np.testing.assert_array_equal(root_ratio(above, below), [0.0, 0.5, 2.0, np.nan, np.nan, np.nan, np.nan, np.nan])


def test_small_squares_do_not_underflow():
    # float32 would lose both; the ratio of norms is 1e-10 / 1e-9.
    np.testing.assert_allclose(root_ratio(np.array([1e-200]), np.array([1e-198])), [0.1], rtol=1e-14)
