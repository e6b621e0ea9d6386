"""A trace that an earlier grpodyn stored stays readable: `tests/data/trace_v1`, schema version 1."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import xarray as xr

from grpodyn import open_run
from grpodyn.trace.schema import TensorInfo
from grpodyn.trace.writer import TraceWriter

STORED = Path(__file__).parents[1] / "data" / "trace_v1"


def test_schema_1_is_read(synthetic: SimpleNamespace) -> None:
    run = open_run(STORED)
    assert (run.manifest.run_id, run.status, run.last_step, run.problems) == ("stored-v1", "finished", 10, [])
    assert run.rows == {"metrics": 10, "tensors": 10, "layers": 10, "spectra": 2, "rollouts": 10, "evaluations": 2}
    np.testing.assert_array_equal(run.tensors["update_norm"].values, synthetic.expected(10, 4, 1))
    assert run.tensors["segment"].values.tolist() == [0] * 6 + [1] * 4
    assert run.tensors["module"].values.tolist() == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert run.rollouts["rewards"].sel(reward_function="exact").values[:, 0, 0].tolist() == list(range(1, 11))
    assert run.evaluations["values"].sel(metric="accuracy").values.tolist() == [0.25, 0.5]
    assert run.evaluations["step"].values.tolist() == [0, 10]
    assert [(event["step"], event["what"]) for event in run.events] == [(3, "update_norm")]


def test_schema_1_is_read_by_plain_xarray() -> None:
    tree = xr.open_datatree(STORED / "trace.zarr", engine="zarr", consolidated=False)
    # Plain xarray knows nothing of segments: steps 7 and 8 are there twice.
    assert tree["tensors"]["step"].values.tolist() == [*range(1, 9), *range(7, 11)]
    tree.close()


def test_schema_1_can_be_resumed(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    path = shutil.copytree(STORED, tmp_path / "run")
    writer = TraceWriter.resume(path, 10)
    synthetic.add_step(writer, 11, 4)
    writer.close("finished")
    run = open_run(path)
    np.testing.assert_array_equal(run.tensors["update_norm"].values, synthetic.expected(11, 4, 1))


def test_a_first_trace_gets_the_newest_coordinates_when_its_tensors_are_declared_again(
    synthetic: SimpleNamespace, tmp_path: Path
) -> None:
    assert not {"matrices", "layout"} & set(open_run(STORED).tensors.coords)
    path = shutil.copytree(STORED, tmp_path / "run")
    TraceWriter.resume(path, 10).close("finished")
    assert not {"matrices", "layout"} & set(open_run(path).tensors.coords), "what is not known is not made up"
    writer = TraceWriter.resume(path, 10)
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    old = open_run(STORED).tensors
    writer.declare_tensors(
        [
            TensorInfo(str(name), 0, module, "", "expert", 2, 3, "float32", True, "full", 4, "out_in")
            for name, module in zip(old["tensor"].values, names, strict=True)
        ]
    )
    writer.close("finished")
    run = open_run(path)
    assert run.problems == []
    assert run.tensors["matrices"].values.tolist() == [4] * 4
    assert run.spectra["layout"].values.tolist() == ["out_in"] * 4
    tree = xr.open_datatree(path / "trace.zarr", engine="zarr", consolidated=False)
    assert tree["tensors"]["matrices"].values.tolist() == [4] * 4
    tree.close()
