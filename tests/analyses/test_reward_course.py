"""The course of a reward: its points, its curve, and the band up to the planned end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from grpodyn import registry
from grpodyn.trace.reader import Run
from tests.simulation.whole_run import write_whole_run


def test_the_fit_ends_where_the_band_begins(tmp_path: Path) -> None:
    course = registry.analysis("reward_course").run(write_whole_run(tmp_path / "r", layers=1, steps=40, planned=60))
    assert (course.steps[0], course.steps[-1], course.logged_per_point) == (1, 40, 1)
    assert course.fitted is not None
    assert course.ahead is not None
    assert course.fitted.steps[-1] == course.ahead.steps[0] == 40
    assert course.ahead.steps[-1] == 60
    # What is foretold at the planned end is what `forecast` says of it.
    final = course.forecast.final
    assert (course.ahead.low[-1], course.ahead.high[-1]) == (final.low, final.high)
    assert all(
        low <= value <= high
        for low, value, high in zip(course.fitted.low, course.fitted.value, course.fitted.high, strict=True)
    )
    # The curve follows the planted one: below a tenth at a quarter of the run, above nine tenths at three quarters.
    at = dict(zip((round(step) for step in course.fitted.steps), course.fitted.value, strict=True))
    assert at[10] < 0.2
    assert at[30] > 0.8
    assert [(one.step, one.accuracy) for one in course.held_out] == [(0, 0.05), (40, 0.9)]


def test_a_long_run_is_cut_to_means_of_neighbours(write_run: Callable[..., Run]) -> None:
    rows = {step: {"reward": float(step % 2)} for step in range(1, 1201)}
    course = registry.analysis("reward_course").run(write_run(metrics=rows))
    assert course.logged_per_point == 3
    assert len(course.steps) == 400
    assert course.steps[0] == 2.0
    assert np.mean(course.rewards) == 0.5


def test_too_few_points_have_no_curve(write_run: Callable[..., Run]) -> None:
    course = registry.analysis("reward_course").run(write_run(metrics={step: {"reward": 0.5} for step in range(1, 5)}))
    assert course.fitted is None
    assert course.ahead is None
    assert course.forecast.verdict == "cannot_tell_yet"
