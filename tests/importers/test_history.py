"""Segments, repeats, several runs in one log, and steps that are not the tracker's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.errors import UnreadableError, UsageError
from grpodyn.importers.history import understand
from grpodyn.importers.json_log import rows_log
from grpodyn.importers.read import from_text


def log(*steps: int, offset: float = 0.0):
    return [{"step": s, "loss": 0.1, "reward": 0.001 * s + offset} for s in steps]


def test_a18_resumed_run_is_segments_of_which_the_later_wins() -> None:
    found = understand(rows_log("x", [*log(*range(1, 101)), *log(*range(81, 161), offset=0.5)]))
    assert found.starts == (0, 80)
    assert [(row.segment, row.step) for row in found.rows[99:101]] == [(0, 100), (1, 81)]
    assert any("resumed" in note for note in found.notes)


def test_a50_two_seeds_appended_to_one_log_are_two_runs() -> None:
    entries = [*log(*range(1, 51)), *log(*range(1, 61), offset=0.5)]
    found = understand(rows_log("x", entries))
    assert len(found.rows) == 60
    assert any("2 runs" in note for note in found.notes)
    first = understand(rows_log("x", entries), part=1)
    assert len(first.rows) == 50
    assert first.rows[0].values["reward"] == pytest.approx(0.001)
    with pytest.raises(UsageError, match="it holds 2"):
        understand(rows_log("x", entries), part=3)


def test_a50_two_seeds_row_by_row_are_two_runs() -> None:
    mixed = [row for pair in zip(log(*range(1, 41)), log(*range(1, 41), offset=0.5), strict=True) for row in pair]
    found = understand(rows_log("x", mixed), part=2)
    assert [row.step for row in found.rows] == list(range(1, 41))
    assert found.rows[0].values["reward"] == pytest.approx(0.501)
    assert found.starts == (0,)


def test_a06_rewards_on_some_rows_and_a_trackers_own_step() -> None:
    entries = []
    for s in range(1, 9):
        row = {"_step": 16 * s, "train/global_step": s, "train/loss": 0.1, "train/grad_norm": 0.5}
        entries.append(row | ({"train/reward": 0.5} if s % 4 == 1 else {}))
    found = understand(rows_log("x", entries))
    assert [row.step for row in found.rows] == list(range(1, 9))
    assert [row.step for row in found.rows if "reward" in row.values] == [1, 5]
    assert len(found.starts) == 1


def test_a06_only_the_trackers_step_is_said() -> None:
    found = understand(rows_log("x", [{"_step": 16 * s, "train/reward": 0.5} for s in range(1, 9)]))
    assert any("tracker's own count" in note for note in found.notes)


def test_rows_of_one_step_are_joined() -> None:
    entries = [{"step": 1, "loss": 0.1}, {"step": 1, "reward": 0.5}, {"step": 2, "loss": 0.2, "reward": 0.6}]
    found = understand(rows_log("x", entries))
    assert [dict(row.values) for row in found.rows] == [{"loss": 0.1, "reward": 0.5}, {"loss": 0.2, "reward": 0.6}]


def test_a_row_that_stands_twice_is_kept_once() -> None:
    found = understand(rows_log("x", [*log(1), *log(1), *log(2)]))
    assert len(found.rows) == 2
    assert any("word for word" in note for note in found.notes)


def test_evaluations_stand_apart_and_belong_to_their_step() -> None:
    entries = [*log(1, 2), {"eval_loss": 0.3, "eval_reward": 0.7, "epoch": 0.1, "step": 2}, *log(3)]
    found = understand(rows_log("x", entries))
    assert [row.step for row in found.rows] == [1, 2, 3]
    assert [(row.step, dict(row.values)) for row in found.evaluations] == [(2, {"eval_loss": 0.3, "eval_reward": 0.7})]


def test_nothing_is_refused() -> None:
    with pytest.raises(UnreadableError, match="right file"):
        understand(rows_log("x", [{"name": "a"}]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_every_row_lands_in_one_part_in_order(steps: list[int]) -> None:
    entries = [{"step": s, "loss": float(i), "reward": 0.1} for i, s in enumerate(steps)]
    found = understand(rows_log("x", entries))
    logged = [row.values["loss"] for row in found.rows]
    assert len(set(logged)) == len(logged)
    for segment in range(len(found.starts)):
        inside = [row.step for row in found.rows if row.segment == segment]
        assert inside == sorted(inside)
        assert all(step > found.starts[segment] for step in inside if step > 0)


def test_json_of_numpy_style_series() -> None:
    found = understand(from_text(json.dumps({"reward_trace": [0.1, 0.2, 0.3], "seed": 1})))
    assert [row.values["reward"] for row in found.rows] == [0.1, 0.2, 0.3]


def test_what_is_no_count_is_no_step() -> None:
    rows = [{"step": 10**30 + i, "reward": 0.5} for i in range(3)]
    history = understand(rows_log("a list", rows))
    assert [row.step for row in history.rows] == [1, 2, 3]
    assert "names no step" in history.notes[0]
