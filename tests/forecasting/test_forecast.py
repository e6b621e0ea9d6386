"""Verdicts, phases and intervals of a forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from grpodyn.errors import UsageError
from grpodyn.forecasting.course import CLEAR_ERRORS, course
from grpodyn.forecasting.curves import foretold
from grpodyn.forecasting.forecast import LEAST_POINTS, fit, forecast
from grpodyn.forecasting.noise import observe
from grpodyn.series import Broken, RewardSeries, series_from_rows

SeriesOf = Callable[..., RewardSeries]
Make = Callable[..., RewardSeries]


def noise(n: int, sd: float = 0.02, seed: int = 0) -> np.ndarray:
    return sd * np.random.default_rng(seed).standard_normal(n)


def test_a_saturated_run_is_a_plateau_with_its_phases(exponential: Make) -> None:
    result = forecast(exponential(n=150, tau=15.0))
    assert result.verdict == "plateau"
    assert result.asymptote is not None
    assert result.asymptote.contains(0.8) or abs(result.asymptote.value - 0.8) < 0.01
    # Nine tenths of an exponential rise are done after 2.303 tau, a tenth after .105 tau.
    assert result.phases.plateau is not None
    assert result.phases.plateau.value == pytest.approx(1 + 2.303 * 15, abs=8)
    assert result.phases.slow is None
    assert result.remaining_gain is not None
    assert abs(result.remaining_gain.value) < 0.01


def test_a_logistic_rise_has_a_slow_start() -> None:
    step = np.arange(1, 161)
    value = 0.1 + 0.8 / (1 + np.exp(-(step - 80) / 8)) + noise(160)
    result = forecast(RewardSeries("reward", step, value, max_steps=160))
    assert result.model == "logistic"
    assert result.phases.slow is not None
    # A tenth is done at t0 − ln 9 · 8.
    assert result.phases.slow.value == pytest.approx(80 - np.log(9) * 8, abs=5)
    assert result.phases.plateau is not None
    assert result.phases.plateau.value == pytest.approx(80 + np.log(9) * 8, abs=6)


def test_an_early_look_is_rising_and_foretells_the_end(exponential: Make) -> None:
    whole = exponential(n=150, tau=30.0)
    result = forecast(whole.take(slice(0, 50)))
    assert result.verdict == "rising"
    assert result.final is not None
    assert result.final.contains(0.8)
    assert result.saving is not None
    assert result.saving.steps == 100


def test_a_low_learning_rate_makes_a_plateau_schedule_limited(exponential: Make) -> None:
    decayed = exponential(n=150, learning_rate=np.linspace(1e-5, 1e-6, 150))
    assert forecast(decayed).verdict == "schedule_limited"
    assert forecast(exponential(n=150, learning_rate=np.linspace(1e-5, 4e-6, 150))).verdict == "plateau"


def test_a_flag_makes_a_plateau_a_fault_and_leaves_a_rise_alone(exponential: Make) -> None:
    flags = ("30% of completions are cut off",)
    assert forecast(exponential(n=150), flags=flags).verdict == "fault"
    assert forecast(exponential(n=150, tau=60).take(slice(0, 60)), flags=flags).verdict == "rising"


def test_a_series_that_broke_is_a_fault(exponential: Make) -> None:
    result = forecast(exponential(n=80, broken=Broken(81, "grad_norm is not finite")))
    assert result.verdict == "fault"
    assert "step 81" in result.why[0]


def test_a_collapse_is_falling() -> None:
    value = np.concatenate([np.linspace(0.3, 0.8, 70), np.linspace(0.8, 0.2, 50)]) + noise(120)
    result = forecast(RewardSeries("reward", np.arange(1, 121), value, max_steps=200))
    assert result.verdict == "falling"
    assert abs(int(result.why[0].split()[-1]) - 70) < 15


def test_a49_an_oscillation_is_no_plateau() -> None:
    step = np.arange(1, 201)
    value = 0.5 + 0.15 * np.sin(step / 10) + noise(200, 0.01)
    result = forecast(RewardSeries("reward", step, value, max_steps=400))
    assert result.verdict == "cannot_tell_yet"
    assert "up and down" in result.why[0]


def test_a49_a_line_is_rising_and_has_no_asymptote() -> None:
    step = np.arange(1, 101)
    result = forecast(RewardSeries("reward", step, 0.1 + 0.004 * step + noise(100), max_steps=100))
    assert result.verdict == "rising"
    assert result.asymptote is None


def test_a49_a_step_in_the_reward_is_no_false_certainty() -> None:
    value = np.where(np.arange(100) < 50, 0.3, 0.7) + noise(100)
    result = forecast(RewardSeries("reward", np.arange(1, 101), value, max_steps=200))
    assert result.verdict in {"plateau", "cannot_tell_yet", "no_trend"}
    assert result.final is not None
    assert result.final.contains(0.7)


def test_few_points_cannot_tell(exponential: Make) -> None:
    result = forecast(exponential(n=LEAST_POINTS - 1))
    assert result.verdict == "cannot_tell_yet"
    assert result.final is None
    assert forecast(series_from_rows([], [])).verdict == "cannot_tell_yet"


def test_a18_a_jump_is_not_bridged() -> None:
    steps = [*range(1, 101), *range(81, 161)]
    values = np.concatenate([np.full(100, 0.3), np.full(80, 0.7)]) + noise(180, 0.02, 7)
    result = forecast(series_from_rows(steps, values))
    assert result.verdict == "no_trend"
    assert result.first_step == 81
    assert any("taken up again" in note for note in result.notes)


def test_nothing_is_forecast_past_the_planned_end(exponential: Make) -> None:
    series = exponential(n=100).take(slice(0, 50))
    result = forecast(series, at_steps=[80])
    assert result.at is not None
    assert result.at[80].value == pytest.approx(0.8, abs=0.06)
    with pytest.raises(UsageError, match="past the planned end"):
        forecast(series, at_steps=[101])
    with pytest.raises(UsageError, match="past already"):
        forecast(series, at_steps=[10])


def test_the_stopping_step_is_where_less_than_epsilon_is_left(exponential: Make) -> None:
    # Left at t: .6 exp(−t/15), less what comes after the end; under .01 from t = 15 ln 60.
    result = forecast(exponential(n=200, tau=15.0, sd=0.005), epsilon=0.01)
    assert result.stop_step is not None
    assert result.stop_step == pytest.approx(1 + 15 * np.log(60), abs=6)
    with pytest.raises(UsageError, match="positive"):
        forecast(exponential(), epsilon=0.0)


def test_an_axis_of_completions_gives_the_same_phases_in_steps(exponential: Make) -> None:
    series = exponential(n=150)
    along = replace(series, axis="completions", x=series.step * 64.0)
    one, other = forecast(series), forecast(along)
    assert one.phases.plateau is not None
    assert other.phases.plateau is not None
    assert other.phases.plateau.value == pytest.approx(one.phases.plateau.value, abs=2)
    tau = {candidate.model: candidate.parameters for candidate in other.candidates}["exponential"]["tau"]
    assert tau == pytest.approx(15 * 64, rel=0.1)


def test_the_same_data_give_the_same_forecast(exponential: Make) -> None:
    # By their text: nan, of a learning rate that was not logged, does not equal itself.
    assert repr(forecast(exponential())) == repr(forecast(exponential()))


def test_counts_make_the_forecast_surer_than_their_absence(curves: ModuleType, series_of: SeriesOf) -> None:
    series = next(
        series_of(curve, 0.5)
        for seed in range(0, 40, 2)
        if (curve := curves.simulate("exponential", seed)).trials is not None
    )
    final = forecast(series).final
    assert final is not None
    assert 0.0 <= final.low <= final.high <= 1.0


def test_flat_runs_have_no_trend_whatever_their_autocorrelation(curves: ModuleType, series_of: SeriesOf) -> None:
    verdicts = [
        forecast(series_of(curves.simulate("constant", seed, autocorrelation=rho))).verdict
        for rho in (0.0, 0.5, 0.7)
        for seed in range(1000, 1008)
    ]
    assert verdicts.count("no_trend") >= 0.9 * len(verdicts)


def test_intervals_cover(curves: ModuleType, series_of: SeriesOf) -> None:
    found = []
    for shape in (*curves.SATURATING, "linear", "constant"):
        for seed in range(1000, 1004):
            curve = curves.simulate(shape, seed)
            final = forecast(series_of(curve, 0.5)).final
            found.append(final is not None and final.contains(curve.final))
    assert np.mean(found) >= 0.75


def test_a38_a_sampled_history_is_fitted_at_its_own_steps(exponential: Make) -> None:
    whole = exponential(n=600, tau=60.0)
    kept = np.sort(np.random.default_rng(8).choice(600, 120, replace=False))
    sampled = series_from_rows(whole.step[kept], whole.value[kept], max_steps=600)
    found = {one.model: one for one in forecast(sampled).candidates}["exponential"]
    assert found.parameters["tau"] == pytest.approx(60, rel=0.15)
    assert found.parameters["R_inf"] == pytest.approx(0.8, abs=0.02)


def test_all_zero_rewards_have_no_trend() -> None:
    result = forecast(RewardSeries("reward", np.arange(1, 61), np.zeros(60), max_steps=60), flags=("truncated",))
    assert result.verdict == "no_trend"
    assert "truncated" in result.why


@pytest.mark.parametrize("value", [-1.0, 2.0, -1 / 3])
def test_a_constant_reward_outside_of_0_and_1_has_no_trend(value: float) -> None:
    result = forecast(RewardSeries("reward", np.arange(1, 41), np.full(40, value), max_steps=100))
    assert result.verdict == "no_trend"
    assert result.level is not None
    assert result.level.value == pytest.approx(value)


@pytest.mark.parametrize("last", [65, 70, 80, 100])
def test_a_collapse_that_no_form_describes_is_falling(last: int) -> None:
    # From .1 up to .9 over 60 steps, then nothing: over all points a line says no more than a constant.
    value = np.concatenate([np.linspace(0.1, 0.9, 60), np.zeros(40)])[:last]
    result = forecast(RewardSeries("reward", np.arange(1, last + 1), value, max_steps=200))
    assert result.verdict == "falling"
    assert 50 <= int(result.why[0].split()[-1]) <= 62


def test_without_a_trend_the_end_is_said_to_be_the_level() -> None:
    # 40 batches of 64 wrong completions each: a rise may come, but nothing foretells one.
    series = RewardSeries(
        "reward", np.arange(1, 41), np.zeros(40), trials=np.full(40, 64.0), max_steps=100, bounds=(0.0, 1.0)
    )
    result = forecast(series, at_steps=[100])
    assert result.verdict == "no_trend"
    assert result.final is not None
    assert result.at is not None
    assert result.final.value == result.at[100].value == pytest.approx(0.0, abs=0.01)
    assert result.final.high > 0.5
    found = fit(series)
    assert found is not None
    ahead = foretold(found, trend=False)
    assert ahead is not None
    assert max(ahead.value) == pytest.approx(0.0, abs=0.01)
    # The band is as wide as it is.
    assert ahead.high[-1] == pytest.approx(result.final.high, abs=0.05)


def test_what_has_risen_again_has_not_fallen() -> None:
    # From .5 down to .2, and up again by .12: the fall is beyond doubt, the rise after it is more than noise.
    value = np.concatenate([np.full(30, 0.5), np.full(20, 0.2), np.full(30, 0.32)]) + noise(80, 0.03, 5)
    series = RewardSeries("reward", np.arange(1, 81), value, max_steps=100)
    found = fit(series)
    assert found is not None
    points = observe(series.position, value, None)
    assert course(points.y, points.scale, found.epsilon, CLEAR_ERRORS).direction < 0
    assert not found.fell
    assert not found.fell_clearly
