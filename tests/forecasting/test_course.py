"""Turning points and noise."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from grpodyn.forecasting.course import autocorrelation, course
from grpodyn.series import RewardSeries

SeriesOf = Callable[..., RewardSeries]


def ar1(n: int, rho: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = np.empty(n)
    noise[0] = rng.standard_normal()
    for i in range(1, n):
        noise[i] = rho * noise[i - 1] + np.sqrt(1 - rho**2) * rng.standard_normal()
    return noise


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_noise_is_told_from_a_slope(rho: float) -> None:
    y = ar1(6000, rho, 1) + np.linspace(0, 50, 6000)
    sigma, found = autocorrelation(y)
    assert sigma == pytest.approx(1.0, abs=0.1)
    assert found == pytest.approx(rho, abs=0.08)


def test_up_and_down_is_one_turn_downwards() -> None:
    y = np.concatenate([np.linspace(0, 1, 60), np.linspace(1, 0.2, 60)]) + 0.02 * ar1(120, 0.0, 2)
    found = course(y, np.full(120, 0.02), 0.01)
    assert len(found.turns) == 1
    assert abs(found.turns[0] - 60) < 12
    assert found.direction == -1


def test_a_wave_turns_again_and_again() -> None:
    y = 0.5 + 0.2 * np.sin(np.arange(160) / 10) + 0.01 * ar1(160, 0.0, 3)
    assert len(course(y, np.full(160, 0.01), 0.01).turns) >= 3


def test_a_rise_does_not_turn() -> None:
    y = 1 - np.exp(-np.arange(150) / 20) + 0.02 * ar1(150, 0.3, 4)
    assert course(y, np.full(150, 0.02), 0.01).turns == ()
    assert course(y, np.full(150, 0.02), 0.01).direction == 1


def test_noise_does_not_turn() -> None:
    turned = [bool(course(0.05 * ar1(120, 0.5, seed), np.full(120, 0.05), 0.01).turns) for seed in range(60)]
    assert np.mean(turned) <= 0.05


def test_too_short_to_tell() -> None:
    assert course(np.array([0.0, 1.0, 0.0]), np.ones(3), 0.01).turns == ()


def test_collapses_are_found(curves: ModuleType, series_of: SeriesOf) -> None:
    from grpodyn.forecasting.noise import observe  # noqa: PLC0415

    found = []
    for seed in range(1000, 1040):
        series = series_of(curves.simulate("collapse", seed))
        data = observe(series.position, series.value, series.trials)
        found.append(course(data.y, data.scale, 0.01).direction == -1)
    assert np.mean(found) >= 0.85
