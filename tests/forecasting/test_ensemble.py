"""Curves drawn from what the data leave open."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.forecasting.candidates import all_surfaces
from grpodyn.forecasting.ensemble import ensemble
from grpodyn.forecasting.forms import FORMS
from grpodyn.forecasting.likelihood import surface
from grpodyn.forecasting.noise import Observations, observe, plain
from grpodyn.forecasting.zoom import zoomed


def rise(n: int = 100, sd: float = 0.02, seed: int = 0) -> Observations:
    x = np.arange(1.0, n + 1)
    y = 0.8 - 0.6 * np.exp(-(x - 1) / 12) + sd * np.random.default_rng(seed).standard_normal(n)
    return observe(x, y, None)


def test_draws_agree_with_the_data_they_come_from() -> None:
    data = rise()
    curves = ensemble(data, all_surfaces(data, FORMS.values()), None)
    means = curves.mean(data.at)
    assert np.abs(np.median(means, axis=0) - (0.8 - 0.6 * np.exp(-(data.x - 1) / 12))).max() < 0.03
    assert curves.weights["exponential"] > 0.5
    assert sum(curves.weights.values()) == pytest.approx(1.0)
    assert np.median(curves.noise) == pytest.approx(0.02, rel=0.3)


def test_more_data_narrow_the_end() -> None:
    few, many = rise(30), rise(300, seed=1)
    far = [observed.place(np.array([600.0])) for observed in (few, many)]
    widths = []
    for data, at in zip((few, many), far, strict=True):
        end = ensemble(data, all_surfaces(data, FORMS.values()), (0.0, 1.0)).mean(at)[:, 0]
        widths.append(np.ptp(np.quantile(end, [0.1, 0.9])))
    assert widths[1] < widths[0] / 2


def test_bounds_hold() -> None:
    x = np.arange(1.0, 31)
    data = observe(x, np.clip(0.9 + 0.003 * x, 0, 1), np.full(30, 64.0))
    curves = ensemble(data, all_surfaces(data, FORMS.values()), (0.0, 1.0))
    saturating = np.array([form.saturates for form in FORMS.values()])[curves.form]
    assert (curves.start + curves.rise)[saturating].max() <= 1.021


def test_a_flat_series_keeps_the_constant_and_forgets_no_late_rise() -> None:
    y = 0.3 + 0.03 * np.random.default_rng(3).standard_normal(80)
    data = observe(np.arange(1.0, 81), y, None)
    weights = ensemble(data, all_surfaces(data, FORMS.values()), None).weights
    assert weights["constant"] > 0.3
    assert weights["logistic"] > 0.02


def test_a_finer_grid_keeps_the_weight_and_its_share_of_the_prior() -> None:
    data = rise(sd=0.002)
    coarse = surface(FORMS["exponential"], data)
    fine = zoomed(coarse, data, 1e-6)
    assert fine.log_volume < 0
    assert fine.cells.min() < 12 / 99 < fine.cells.max()

    # The integral of the likelihood over the logarithm of tau is the same on both grids, if the coarse one resolves it.
    broad = plain(data.x[:20], rise(sd=0.08).y[:20])
    wide, narrow = surface(FORMS["exponential"], broad), zoomed(surface(FORMS["exponential"], broad), broad, 1e-6)

    def integral(one: object) -> float:
        rest = one.solve(1e-6)[2][:, 0]  # type: ignore[attr-defined]
        return float(np.mean(rest ** (-len(broad) / 2))) * np.exp(one.log_volume)  # type: ignore[attr-defined]

    assert integral(narrow) == pytest.approx(integral(wide), rel=0.15)


def test_forms_without_shape_are_left_as_they_are() -> None:
    data = rise()
    linear = surface(FORMS["linear"], data)
    assert zoomed(linear, data, 1.0) is linear
