"""Resuming: rows are cut to the commit, segments are appended, and where steps repeat the later segment wins."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn import open_run
from grpodyn.errors import NotARunError, UsageError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import superseded_after
from grpodyn.trace.schema import ArraySpec
from grpodyn.trace.writer import TraceWriter

RunMaker = Callable[..., Path]


def test_a_resumed_run_has_every_step_once(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    path = make_run(steps=100, status=None)
    assert open_run(path).status == "interrupted"
    writer = TraceWriter.resume(path, 80, checkpoint="checkpoint-80")
    synthetic.declare(writer, 9)
    for step in range(81, 161):
        writer.add_row("tensors", step, {"grad_norm": -synthetic.probe_row(step, 9)})
    writer.close("finished")
    run = open_run(path)
    assert run.manifest.segments[1]["start_step"] == 80
    assert run.manifest.segments[1]["checkpoint"] == "checkpoint-80"
    assert run.tensors["step"].values.tolist() == list(range(1, 161))
    assert run.tensors["segment"].values.tolist() == [0] * 80 + [1] * 80
    signs = np.sign(run.tensors["grad_norm"].values[:, 0])
    assert signs.tolist() == [1.0] * 80 + [-1.0] * 80
    # In the groups that the second segment did not write, what it went back over is gone too.
    assert run.rollouts["step"].values.tolist() == list(range(1, 81))
    assert (run.status, run.last_step) == ("finished", 160)


def test_a_segment_that_never_wrote_hides_nothing(make_run: RunMaker) -> None:
    path = make_run(steps=20, status=None)
    TraceWriter.resume(path, 10).close("failed")
    run = open_run(path)
    assert (run.last_step, run.rows["tensors"], len(run.manifest.segments)) == (20, 20, 2)


@pytest.mark.parametrize("steps", [5, 512, 700])
def test_resume_needs_no_new_declarations(synthetic: SimpleNamespace, make_run: RunMaker, steps: int) -> None:
    path = make_run(steps=steps)
    writer = TraceWriter.resume(path, steps)
    for step in range(steps + 1, steps + 4):
        synthetic.add_step(writer, step, 9)
    writer.close("finished")
    run = open_run(path)
    np.testing.assert_array_equal(run.tensors["update_norm"].values, synthetic.expected(steps + 3, 9, 1))
    assert run.metric("loss").values.tolist() == [1 / s for s in range(1, steps + 4)]


def test_uncommitted_rows_do_not_come_back(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    path = make_run(steps=10, status=None)
    commit = (path / "commit.json").read_bytes()
    writer = TraceWriter.resume(path, 10)
    for step in range(11, 700):
        synthetic.add_step(writer, step, 9)
    writer._end(lambda: None)
    # As if the process had died just before the last commit: the rows are in the store, the commit is the old one.
    (path / "commit.json").write_bytes(commit)
    assert open_run(path).last_step == 10
    writer = TraceWriter.resume(path, 10)
    writer.add_row("tensors", 11, {"grad_norm": np.zeros(9)})
    writer.close("finished")
    run = open_run(path)
    assert run.tensors["step"].values.tolist() == list(range(1, 12))
    np.testing.assert_array_equal(run.tensors["update_norm"].values[:10], synthetic.expected(10, 9, 1))
    assert np.isnan(run.tensors["update_norm"].values[10]).all()


def test_axes_may_be_extended_but_not_changed(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    path = make_run(steps=3, tensors=5)
    writer = TraceWriter.resume(path, 3)
    with pytest.raises(UsageError, match="can be extended, not changed"):
        writer.declare_tensors(list(reversed(synthetic.tensor_infos(5))))
    with pytest.raises(UsageError, match="can be extended, not changed"):
        writer.declare_tensors(synthetic.tensor_infos(4))
    with pytest.raises(UsageError, match="of float32, not"):
        writer.declare_arrays("tensors", {"grad_norm": ArraySpec(("row", "tensor"), "float64")})
    writer.declare_tensors(synthetic.tensor_infos(7))
    writer.add_row("tensors", 4, {"grad_norm": synthetic.probe_row(4, 7)})
    writer.close("finished")
    assert open_run(path).tensors["grad_norm"].shape == (4, 7)


def test_resume_of_what_is_no_run_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        TraceWriter.resume(tmp_path, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_torn_event_line_does_not_swallow_the_next(make_run: RunMaker) -> None:
    path = make_run()
    (path / "events.jsonl").write_text('{"step": 1, "what": "a", "why": "b"}\n{"step": 2, "wh')
    writer = TraceWriter.resume(path, 12)
    writer.event(13, "c", "d")
    writer.close("finished")
    run = open_run(path)
    assert [(event["step"], event["what"]) for event in run.events] == [(1, "a"), (13, "c")]
    assert run.problems == ["events.jsonl: line 2 is no event"]


@given(
    starts=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    wrote=st.lists(st.booleans(), min_size=5, max_size=5),
    row_step=st.integers(0, 40),
    row_segment=st.integers(0, 4),
)
def test_superseded_rule_against_its_definition(
    starts: list[int], wrote: list[bool], row_step: int, row_segment: int
) -> None:
    segments = [{"index": i, "start_step": start} for i, start in enumerate(starts)]
    row_segment %= len(starts)
    written = {i for i in range(len(starts)) if wrote[i]} | {row_segment}
    dropped = any(later > row_segment and later in written and starts[later] < row_step for later in range(len(starts)))
    assert (row_step > superseded_after(segments, written)[row_segment]) == dropped


def test_an_empty_run_is_called_empty(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    assert open_run(tmp_path / "run").status == "running"
    writer.event(0, "model", "could not be loaded")
    writer.close("failed")
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step) == ("empty", -1)
    with pytest.raises(Exception, match=r"is empty: it holds no row \(model: could not be loaded\)"):
        run.require("grad_norm")
