"""Levels and changes against slow twins, and against noise that is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from grpodyn.diagnosis.series import Series, overall_rise, rise, trailing_mean, trailing_median


def series(values) -> Series:
    values = np.asarray(values, dtype=float)
    return Series(np.arange(1, len(values) + 1), values)


@settings(max_examples=50, deadline=None)
@given(arrays(float, st.integers(1, 60), elements=st.floats(-1e3, 1e3)), st.integers(1, 30))
def test_trailing_mean_is_the_mean_of_the_last_values(values, width) -> None:
    slow = [values[max(0, i - width + 1) : i + 1].mean() for i in range(len(values))]
    np.testing.assert_allclose(trailing_mean(values, width), slow, rtol=1e-9, atol=1e-9)


def test_trailing_median_sees_whole_blocks_before_it() -> None:
    values = np.arange(12.0)
    found = trailing_median(values, block=4)
    assert np.isnan(found[:4]).all()
    assert found[4:8].tolist() == [1.5] * 4
    assert found[8:].tolist() == [3.5] * 4


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_a_flat_series_rarely_rises(correlation) -> None:
    """The error allows for neighbours that are alike: at 4 standard errors next to nothing is a change."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        noise = rng.standard_normal(300)
        for i in range(1, 300):
            noise[i] += correlation * noise[i - 1]
        alarms += abs(overall_rise(series(noise))[1]) >= 5
    assert alarms <= 12


def test_a_slope_is_no_noise() -> None:
    rng = np.random.default_rng(0)
    line = series(np.linspace(0, 1, 200) + 0.01 * rng.standard_normal(200))
    assert line.level.error < 0.005


def test_constants() -> None:
    assert rise(series([1.0] * 9), series([1.0] * 9)) == (0.0, 0.0)
    assert rise(series([1.0] * 9), series([2.0] * 9)) == (1.0, math.inf)
    assert series([]).level.rows == 0


def test_since_is_the_step_from_which_it_holds_to_the_end() -> None:
    found = series([0, 1, 0, 1, 1.0])
    assert found.since(found.values > 0) == 4
    assert found.since(found.values < 0.5) is None
    assert found.since(found.values >= 0) == 1
