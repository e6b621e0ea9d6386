"""One law over several runs, on runs that follow it and on runs that do not."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.errors import MissingDataError, UsageError
from grpodyn.forecasting.scaling import Scaling, Trajectory, fit_scaling, trajectory

SIZES = (0.5e9, 1e9, 2e9, 4e9, 8e9, 16e9)


def saturation(size: float, initial: float, seed: int, sd: float = 0.01) -> Trajectory:
    """R∞ = .5 + .4 r₀ + .08 ln M, time constant .15 M^.3 of the run."""
    t = np.linspace(0.01, 1, 100)
    end = 0.5 + 0.4 * initial + 0.08 * np.log(size / 1e9)
    reward = initial + (end - initial) * -np.expm1(-t / (0.15 * (size / 1e9) ** 0.3))
    noisy = reward + sd * np.random.default_rng(seed).standard_normal(100)
    return trajectory(f"{size:g}-{seed}", size, t, noisy, initial)


def runs() -> list[Trajectory]:
    starts = (0.1, 0.3, 0.2, 0.35, 0.15, 0.25)
    return [saturation(size, start, i) for i, (size, start) in enumerate(zip(SIZES, starts, strict=True))]


@pytest.fixture(scope="module")
def found() -> Scaling:
    return fit_scaling(runs())


def test_a_law_that_holds_is_found_with_its_constants(found: Scaling) -> None:
    assert found.best.form == "saturation"
    assert found.helps
    assert found.best.left_out_rmse < 0.02
    assert found.best.constants["gamma"] == pytest.approx(0.3, abs=0.1)
    assert found.best.constants["c2"] == pytest.approx(0.08, abs=0.01)
    assert found.best.constants["c1"] == pytest.approx(0.4, abs=0.1)


def test_a_model_that_was_not_run_is_foretold(found: Scaling) -> None:
    truth = 0.5 + 0.4 * 0.2 + 0.08 * np.log(32)
    foretold = found.forecast(32e9, 0.2, 1.0)
    assert foretold.value == pytest.approx(0.2 + (truth - 0.2) * -np.expm1(-1 / (0.15 * 32**0.3)), abs=0.02)
    assert foretold.low < foretold.value < foretold.high


def test_runs_without_a_law_are_told_apart_from_runs_with_one() -> None:
    rng = np.random.default_rng(4)
    t = np.linspace(0.01, 1, 60)
    strays = [
        trajectory(str(i), size, t, 0.2 + rng.uniform(0, 0.7) * -np.expm1(-t / 0.2), 0.2)
        for i, size in enumerate(SIZES)
    ]
    found = fit_scaling(strays)
    assert found.best.left_out_rmse > 0.1


def test_the_sigmoid_is_found_where_it_holds() -> None:
    t = np.linspace(0.01, 1, 80)
    found = fit_scaling(
        [
            trajectory(
                str(i), size, t, 0.8 * start + 0.03 * np.log(size / 1e9) + 0.4 / (1 + np.exp(-18 * (t - 0.4))), start
            )
            for i, (size, start) in enumerate(zip(SIZES, (0.1, 0.3, 0.2, 0.35, 0.15, 0.25), strict=True))
        ]
    )
    assert found.best.form == "sigmoid"
    assert found.best.constants["t0"] == pytest.approx(0.4, abs=0.05)
    assert found.best.constants["b"] == pytest.approx(0.03, abs=0.01)


def test_one_size_says_nothing_about_size() -> None:
    found = fit_scaling([saturation(1e9, initial, i) for i, initial in enumerate((0.1, 0.2, 0.3, 0.4))])
    assert not found.knows_size
    assert "c2" not in found.best.constants


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 4"):
        fit_scaling(runs()[:3])
    with pytest.raises(MissingDataError, match="at least 4 of each run"):
        trajectory("a", 1e9, np.array([0.1, 0.2]), np.array([0.1, 0.2]))


def test_a_run_with_more_points_counts_for_no_more() -> None:
    t = np.linspace(0.001, 1, 4000)
    assert len(trajectory("a", 1e9, t, t).reward) == 40
