"""Rows of a log become a series: what is missing is left out, what was repeated is replaced, jumps are not bridged."""

import numpy as np
import pytest

from grpodyn.errors import UsageError
from grpodyn.series import Broken, RewardSeries, series_from_rows

NAN = float("nan")


def test_a06_rows_without_a_reward_are_left_out_not_zero_and_no_fault() -> None:
    series = series_from_rows([1, 2, 3, 4, 5], [0.1, NAN, NAN, NAN, 0.3])
    assert series.step.tolist() == [1, 5]
    assert series.value.tolist() == [0.1, 0.3]
    assert series.broken is None


def test_a18_later_rows_replace_the_steps_they_repeat() -> None:
    steps = [*range(1, 101), *range(81, 161)]
    values = [0.3] * 100 + [0.31, 0.29] * 40
    series = series_from_rows(steps, values)
    assert series.step.tolist() == list(range(1, 161))
    assert series.value[80] == 0.31
    assert series.notes == ()


def test_a18_a_jump_at_a_resume_is_not_bridged() -> None:
    rng = np.random.default_rng(0)
    steps = [*range(1, 101), *range(81, 161)]
    values = np.concatenate([0.3 + 0.02 * rng.standard_normal(100), 0.6 + 0.02 * rng.standard_normal(80)])
    last = series_from_rows(steps, values).last_part()
    assert last.step[0] == 81
    assert last.step[-1] == 160
    assert "step 80" in last.notes[-1]


def test_a_clean_resume_on_a_slope_is_one_part() -> None:
    rng = np.random.default_rng(1)
    steps = np.arange(1, 101)
    values = 0.1 + 0.005 * steps + 0.02 * rng.standard_normal(100)
    series = series_from_rows(steps, values, segment=(steps > 50).astype(int))
    assert len(series.last_part()) == 100


def test_a50_a_log_with_two_seeds_one_after_another_uses_the_last_and_says_so() -> None:
    series = series_from_rows([*range(1, 51), *range(1, 41)], [0.2] * 50 + [0.7] * 40)
    assert series.step[-1] == 40
    assert (series.value == 0.7).all()
    assert "2 runs" in series.notes[0]


@pytest.mark.parametrize("steps", [np.repeat(np.arange(20), 2), np.array([1, 5, 2, 6, 3, 7, 4, 8, 5, 9, 6, 10, 7, 11])])
def test_a50_rows_of_two_runs_that_alternate_are_refused_or_told_apart(steps: np.ndarray) -> None:
    if len(np.unique(steps)) * 2 == len(steps):
        with pytest.raises(UsageError, match="2 runs are mixed"):
            series_from_rows(steps, np.zeros(len(steps)))
    else:
        # Steps that go back at every second row: the later row of a step counts, nothing is averaged over both.
        series = series_from_rows(steps, np.arange(len(steps), dtype=float))
        assert (np.diff(series.step) > 0).all()


def test_nothing_after_the_break_is_kept() -> None:
    series = series_from_rows(range(1, 11), np.ones(10), broken=Broken(6, "grad_norm"))
    assert series.step[-1] == 5


def test_wrong_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="one value a step"):
        series_from_rows([1, 2, 3], [0.1, 0.2])


def test_positions_and_steps_are_inverse_past_the_end() -> None:
    step = np.arange(1, 11)
    series = RewardSeries("reward", step, np.zeros(10), axis="completions", x=step * 64.0)
    assert series.position_at(20) == pytest.approx(1280)
    assert series.step_at(1280) == pytest.approx(20)
    assert series.step_at(series.position_at(3)) == pytest.approx(3)


def test_learning_rate_share_is_of_the_peak_and_unknown_where_it_is_logged_as_zero() -> None:
    rates = series_from_rows([1, 2, 3], [0, 0, 0], learning_rate=[1e-6, 5e-6, 1e-6])
    assert rates.learning_rate_share == pytest.approx(0.2)
    # Adafactor logs no rate, or 0.
    assert np.isnan(series_from_rows([1, 2], [0, 0], learning_rate=[0, NAN]).learning_rate_share)
    assert np.isnan(series_from_rows([1, 2], [0, 0]).learning_rate_share)


def test_a_value_whose_square_is_no_number_is_left_out_and_it_is_said() -> None:
    series = series_from_rows(range(4), [0.1, 1e308, -1e150, 0.2])
    assert series.value.tolist() == [0.1, 0.2]
    assert any("2 values beyond" in note for note in series.notes)
