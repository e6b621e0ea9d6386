"""The last row of a group can get more values: a recorder learns late which step was the last."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from grpodyn import open_run
from grpodyn.errors import UnknownNameError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec
from grpodyn.trace.writer import TraceWriter


def writer_with(synthetic: SimpleNamespace, run_dir: Path) -> TraceWriter:
    writer = TraceWriter.create(run_dir, Manifest())
    synthetic.declare(writer, 3)
    writer.declare_arrays("tensors", {"delta_norm": ArraySpec(("row", "tensor"))})
    return writer


@pytest.mark.parametrize("steps", [1, 7, 511, 512, 513, 1024])
@pytest.mark.parametrize("committed", [False, True])
def test_more_values_of_the_last_row(synthetic: SimpleNamespace, tmp_path: Path, steps: int, committed: bool) -> None:
    """Also where the row has filled its chunk, which was written and let go; no other row changes."""
    writer = writer_with(synthetic, tmp_path / "run")
    for step in range(1, steps + 1):
        writer.add_row("tensors", step, {"grad_norm": synthetic.probe_row(step, 3)})
    if committed:
        assert writer.flush()
    writer.amend_row("tensors", steps, {"delta_norm": [1.0, 2.0, 3.0], "update_norm": [4.0, 5.0, 6.0]})
    writer.close("finished")
    tensors = xr.open_datatree(tmp_path / "run/trace.zarr", engine="zarr", consolidated=False)["tensors"].to_dataset()
    assert tensors["delta_norm"].values[-1].tolist() == [1.0, 2.0, 3.0]
    assert tensors["update_norm"].values[-1].tolist() == [4.0, 5.0, 6.0]
    assert np.isnan(tensors["delta_norm"].values[:-1]).all()
    expected = np.array([synthetic.probe_row(step, 3) for step in range(1, steps + 1)])
    np.testing.assert_array_equal(tensors["grad_norm"].values, expected)


def test_rows_that_follow_start_clean(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """What was read again to amend a full chunk does not come back in the next one."""
    writer = writer_with(synthetic, tmp_path / "run")
    for step in range(1, 513):
        writer.add_row("tensors", step, {"grad_norm": synthetic.probe_row(step, 3), "update_norm": [1.0, 1.0, 1.0]})
    writer.amend_row("tensors", 512, {"delta_norm": [1.0, 2.0, 3.0]})
    writer.add_row("tensors", 513, {"grad_norm": synthetic.probe_row(513, 3)})
    writer.close("finished")
    tensors = open_run(tmp_path / "run").tensors
    assert np.isnan(tensors["update_norm"].values[512]).all()
    assert np.isnan(tensors["delta_norm"].values[512]).all()
    assert tensors["grad_norm"].values[512].tolist() == synthetic.probe_row(513, 3).tolist()


def test_a_row_that_is_not_the_last_is_left_alone_and_named(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = writer_with(synthetic, tmp_path / "run")
    for step in (1, 2):
        writer.add_row("tensors", step, {"grad_norm": synthetic.probe_row(step, 3)})
    writer.amend_row("tensors", 1, {"delta_norm": [1.0, 2.0, 3.0]})
    writer.amend_row("layers", 2, {"layer_delta": [1.0, 2.0]})
    with pytest.raises(UnknownNameError):
        writer.amend_row("tensors", 2, {"no_such_array": [1.0]})
    writer.close("finished")
    run = open_run(tmp_path / "run")
    assert "delta_norm" not in run.tensors or run.tensors["delta_norm"].isnull().all()
    whys = [event["why"] for event in run.events if event["what"] == "row not completed"]
    assert ["tensors" in whys[0], "layers" in whys[1]] == [True, True]


def test_a_resumed_run_does_not_amend_what_it_did_not_write(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = writer_with(synthetic, tmp_path / "run")
    writer.add_row("tensors", 1, {"grad_norm": synthetic.probe_row(1, 3)})
    writer.close("stopped_early")
    resumed = TraceWriter.resume(tmp_path / "run", 1)
    synthetic.declare(resumed, 3)
    resumed.amend_row("tensors", 1, {"update_norm": [1.0, 2.0, 3.0]})
    resumed.close("finished")
    run = open_run(tmp_path / "run")
    assert "update_norm" not in run.tensors or run.tensors["update_norm"].isnull().all()
    assert [event["what"] for event in run.events if event["step"] == 1] == ["row not completed"]
