"""Curves of metrics, and logs that hold several runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.arms.curves import curves_of, runs_in
from tests.simulation.recorded import record


def test_a50_a_log_that_was_opened_to_append_holds_two_runs(tmp_path: Path) -> None:
    rows = [(step, {"reward": 0.1 * seed}) for seed in (1, 2) for step in range(1, 6)]
    first, second = curves_of(record(tmp_path / "log", metrics=rows), "reward")
    assert (first.run, second.run) == ("log (1 of 2)", "log (2 of 2)")
    assert first.step.tolist() == second.step.tolist() == [1, 2, 3, 4, 5]
    assert first.value.tolist() == pytest.approx([0.1] * 5)
    assert second.value.tolist() == pytest.approx([0.2] * 5)


def test_a50_rows_of_two_seeds_that_alternate(tmp_path: Path) -> None:
    rows = [(step, {"reward": 0.1 * seed}) for step in range(1, 6) for seed in (1, 2)]
    curves = curves_of(record(tmp_path / "log", metrics=rows), "reward")
    assert [curve.value.tolist() for curve in curves] == [pytest.approx([0.1] * 5), pytest.approx([0.2] * 5)]


def test_an_evaluation_metric_and_one_that_is_not_there(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run",
        metrics={1: {"reward": float("nan")}, 2: {"reward": 0.5}},
        evaluations={0: {"heldout/accuracy": 0.1}, 2: {"heldout/accuracy": 0.6}},
    )
    (held_out,) = curves_of(run, "heldout/accuracy")
    assert held_out.step.tolist() == [0, 2]
    (reward,) = curves_of(run, "reward")
    assert (reward.run, reward.step.tolist()) == ("run", [2])
    assert curves_of(run, "kl") == []


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), max_size=60))
def test_every_row_belongs_to_one_run(steps: list[int]) -> None:
    rows = [row for part in runs_in(np.array(steps, np.int64)) for row in part.tolist()]
    assert sorted(rows) == list(range(len(steps)))


def test_a_resume_and_an_evaluation_beside_a_log_are_one_run() -> None:
    assert len(runs_in(np.array([1, 2, 3, 3, 4, 5, 5, 6]))) == 1
    assert len(runs_in(np.array([10, 20, 30, 40, 50, 35, 40, 50, 60]))) == 1
