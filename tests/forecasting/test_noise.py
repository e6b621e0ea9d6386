"""Points on an even footing: blocks, binomial scales, outliers."""

import numpy as np
import pytest

from grpodyn.forecasting.noise import MAX_POINTS, observe, place


def test_blocks_weigh_by_completions_and_keep_the_last_points_whole() -> None:
    n = 2 * MAX_POINTS + 1
    x, trials = np.arange(1.0, n + 1), np.ones(n)
    y = np.zeros(n)
    trials[-1], y[-1] = 3.0, 1.0
    found = observe(x, y, trials)
    assert len(found) <= MAX_POINTS
    # The last block of three: (0·1 + 0·1 + 1·3) / 5.
    assert found.y[-1] == pytest.approx(3 / 5)
    assert found.x[-1] == n - 1


def test_cost_does_not_grow_with_the_run() -> None:
    assert len(observe(np.arange(1.0, 20_001), np.zeros(20_000), None)) <= MAX_POINTS


def test_binomial_scale() -> None:
    y = np.full(60, 0.2)
    few, many = observe(np.arange(1.0, 61), y, np.full(60, 16.0)), observe(np.arange(1.0, 61), y, np.full(60, 1600.0))
    # sqrt(.2 · .8 / 16), of the running share with one success and one failure added.
    assert few.scale[30] == pytest.approx(np.sqrt(0.16 / 16), rel=0.05)
    assert many.scale[30] == pytest.approx(np.sqrt(0.16 / 1600), rel=0.01)
    # All right is little noise, not none.
    assert (observe(np.arange(1.0, 61), np.ones(60), np.full(60, 16.0)).scale > 0).all()


def test_an_outlier_is_pulled_in_and_its_neighbours_are_left_alone() -> None:
    y = 0.5 + 0.02 * np.random.default_rng(0).standard_normal(60)
    y[30] = 3.0
    found = observe(np.arange(1.0, 61), y, None).y
    assert found[30] < 0.7
    clean = np.delete(np.arange(60), 30)
    assert np.abs(found[clean] - y[clean]).max() < 0.05


def test_places() -> None:
    at = place(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    assert at.t.tolist() == [0, 0.5, 1]
    # An axis from 0 is moved by one step for the logarithm: 1/3, 2/3, 1.
    assert at.c.tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    assert place(np.array([4.0]), np.array([1.0, 2.0])).c.tolist() == [2.0]
