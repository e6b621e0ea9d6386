"""What a live view tells is what whole reads tell, and only what is new is read."""

from __future__ import annotations

import math

import pytest
import xarray as xr

from grpodyn.errors import MissingDataError, NotARunError
from grpodyn.trace.reader import open_run
from grpodyn.trace.writer import TraceWriter
from grpodyn.watching import Follower
from grpodyn.watching.held import GROUPS, Held
from tests.watching.conftest import LiveRun


def test_nothing_new_is_nothing_and_a_new_row_is_read_alone(live: LiveRun) -> None:
    live.steps(1, 30)
    follower = Follower(live.path)
    first = follower.look()
    assert first is not None
    assert (first.status, first.step, first.planned_steps) == ("running", 30, 100)
    assert follower.rows_read == 60  # 30 logs and 30 batches
    assert follower.look() is None
    live.steps(31, 31)
    second = follower.look()
    assert second is not None
    assert second.step == 31
    assert follower.rows_read == 2


def test_the_figures_are_those_that_were_written(live: LiveRun) -> None:
    live.steps(1, 12, right=4)
    seen = Follower(live.path).look()
    assert seen is not None
    # 12 steps of 2 s, 88 to go.
    assert seen.seconds_a_step == pytest.approx(2.0)
    assert seen.seconds_left == pytest.approx(176.0)
    assert seen.recorder_seconds == pytest.approx(0.12)
    assert seen.recorder_share == pytest.approx(0.005)
    # One group of each batch is all right, the other all wrong: neither has any spread.
    assert seen.groups is not None
    shares = (seen.groups.all_right, seen.groups.mixed, seen.groups.all_wrong, seen.groups.dead)
    assert shares == pytest.approx((0.5, 0.0, 0.5, 1.0))
    # Layer 1's up_proj is the fourth tensor; its displacement was recorded at step 10 last.
    assert [mover.tensor for mover in seen.movers[:2]] == [
        "model.layers.1.up_proj.weight",
        "model.layers.1.q_proj.weight",
    ]
    assert seen.movers[0].update_ratio == pytest.approx(4e-4)
    assert seen.movers[0].delta_norm == pytest.approx(30.0)
    assert seen.fit is not None
    assert seen.fit.rewards[-1] == pytest.approx(0.5)


def test_findings_appear_as_they_arise(live: LiveRun) -> None:
    live.steps(1, 30, **{"completions/clipped_ratio": 0.0})
    follower = Follower(live.path)
    first = follower.look()
    live.steps(31, 80, **{"completions/clipped_ratio": 0.9})
    second = follower.look()
    assert first is not None
    assert second is not None
    assert "truncation" not in {finding.id for finding in first.findings}
    assert "truncation" in {finding.id for finding in second.findings}


def test_a_run_that_ends_is_seen_to_end(live: LiveRun) -> None:
    live.steps(1, 3)
    follower = Follower(live.path)
    follower.look()
    live.writer.close("stopped_early")
    seen = follower.look()
    assert seen is not None
    assert seen.status == "stopped_early"
    assert math.isnan(seen.seconds_left)


def test_a_run_without_rows_is_no_error(live: LiveRun) -> None:
    seen = Follower(live.path).look()
    assert seen is not None
    assert (seen.step, seen.fit, seen.groups, seen.movers) == (-1, None, None, ())


def test_an_absent_run_and_an_absent_metric_are_named(live: LiveRun, tmp_path) -> None:
    with pytest.raises(NotARunError, match="absent"):
        Follower(tmp_path / "absent").look()
    live.steps(1, 3)
    with pytest.raises(MissingDataError, match="no metric 'rewrad'"):
        Follower(live.path, "rewrad").look()


def test_what_is_held_equals_what_is_stored_when_a_metric_is_new(live: LiveRun) -> None:
    held = Held()
    live.steps(1, 5)
    held.give(open_run(live.path))
    live.steps(6, 8, new_metric=1.0)
    run = open_run(live.path)
    held.give(run)
    whole = open_run(live.path)
    for name in GROUPS:
        xr.testing.assert_equal(getattr(run, name), getattr(whole, name).load())
    assert run.metric("new_metric").sizes["row"] == 3


def test_a_run_that_was_taken_up_again_is_read_anew(live: LiveRun) -> None:
    live.steps(1, 6, right=1)
    held = Held()
    held.give(open_run(live.path))
    live.writer.close("stopped_early")
    live.writer = TraceWriter.resume(live.path, 3)
    live.steps(4, 6, right=3)
    run = open_run(live.path)
    held.give(run)
    assert run.metric("reward").values.tolist() == [0.125, 0.125, 0.125, 0.375, 0.375, 0.375]
