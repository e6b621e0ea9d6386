"""What goes in comes out, in a closed run without grpodyn too."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from grpodyn import open_run
from grpodyn.errors import DirectoryInUseError, MissingDataError, SchemaError, UnknownNameError, UsageError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec
from grpodyn.trace.writer import TraceWriter

RunMaker = Callable[..., Path]


@pytest.mark.parametrize("steps", [1, 511, 512, 513, 1100])
def test_a29_a_closed_run_is_read_exactly_by_plain_xarray(
    synthetic: SimpleNamespace, make_run: RunMaker, steps: int
) -> None:
    """A29: nothing is consolidated, so that no stale copy of the metadata hides what came later."""
    path = make_run(steps=steps)
    tree = xr.open_datatree(path / "trace.zarr", engine="zarr", consolidated=False)
    tensors = tree["tensors"].to_dataset()
    for index, probe in enumerate(synthetic.PROBES):
        np.testing.assert_array_equal(tensors[probe].values, synthetic.expected(steps, 9, index))
    assert tensors["step"].values.tolist() == list(range(1, steps + 1))
    assert tensors["segment"].values.tolist() == [0] * steps
    assert tensors["tensor"].values.tolist() == [t.name for t in synthetic.tensor_infos(9)]
    assert {"step", "segment", "tensor", "layer", "module", "kind", "rows", "cols", "dtype", "source"} <= set(
        tensors.coords
    )
    assert tree["metrics"]["values"].sizes == {"row": steps, "metric": 3}
    assert tree["rollouts"]["rewards"].sizes == {"row": steps, "prompt": 3, "generation": 4, "reward_function": 2}
    tree.close()


def test_open_run_gives_labelled_arrays(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    run = open_run(make_run(steps=12))
    assert (run.status, run.last_step, run.problems) == ("finished", 12, [])
    assert run.rows == {"metrics": 12, "tensors": 12, "layers": 12, "spectra": 2, "rollouts": 12, "evaluations": 0}
    norm = run.tensors["update_norm"]
    assert norm.dims == ("row", "tensor")
    assert norm.attrs["unit"] == "1"
    np.testing.assert_array_equal(norm.values, synthetic.expected(12, 9, 1))
    q = norm.isel(tensor=(norm["module"] == "q_proj").values)
    assert q["layer"].values.tolist() == [0, 1]
    assert norm["tensor"].dtype == object
    assert norm["trainable"].values.tolist() == [True] * 9
    assert run.layers["layer_delta"].sel(layer=1).values.tolist() == [0.25 * s for s in range(1, 13)]
    assert run.spectra["step"].values.tolist() == [5, 10]
    assert run.spectra["measured_step"].values[1].tolist() == [10] * 9
    assert run.spectra["singular_values"].sizes == {"row": 2, "tensor": 9, "k": 3}
    assert run.rollouts["prompt_id"].values[3].tolist() == [4, 2**53 + 4, -7]
    assert run.rollouts["rewards"].sel(reward_function="format").values[2].tolist() == [[3.0] * 4] * 3
    assert run.metric("loss").values.tolist() == [1 / s for s in range(1, 13)]
    assert run.metrics["time"].values.tolist() == [1e9 + s for s in range(1, 13)]
    assert run.evaluations.sizes.get("row", 0) == 0


def test_reading_is_lazy(make_run: RunMaker) -> None:
    run = open_run(make_run(steps=600))
    array = run.tensors["update_norm"]
    assert array.chunks == ((512, 88), (9,))
    # Nothing was read yet: a chunk deleted now is still missed.
    (run.path / "trace.zarr/tensors/update_norm/c/1/0").unlink()
    values = array.values
    assert np.isfinite(values[:512]).all()
    assert np.isnan(values[512:]).all()


def test_values_are_copied_before_add_row_returns(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 2)
    row = np.array([1.0, 2.0], dtype=np.float32)
    writer.add_row("tensors", 1, {"grad_norm": row})
    row[:] = -1
    writer.close("finished")
    assert open_run(tmp_path / "run").tensors["grad_norm"].values.tolist() == [[1.0, 2.0]]


def test_metric_axis_grows_with_names_and_missing_stays_nan(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    # 200 names appear one by one: over three blocks of 64, across commits.
    for step in range(1, 201):
        writer.add_row("metrics", step, {f"m{step}": float(step), "kl": float("nan"), "entropy": None, "reward": 0.5})
        if step % 40 == 0:
            assert writer.flush()
            live = open_run(tmp_path / "run")
            assert live.status == "running"
            assert live.metric(f"m{step}").values.tolist() == [float(step)]
    writer.close("finished")
    run = open_run(tmp_path / "run")
    assert run.metrics["metric"].values.tolist() == ["m1", "kl", "entropy", "reward", *[f"m{s}" for s in range(2, 201)]]
    for step in (1, 2, 64, 65, 199):
        series = run.metric(f"m{step}")
        assert (series.values.tolist(), series["step"].values.tolist()) == ([float(step)], [step])
    assert len(run.metric("kl")) == 0
    assert run.metric("reward").values.tolist() == [0.5] * 200


def test_arrays_and_tensors_may_come_late(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 3)
    for step in range(1, 600):
        writer.add_row("tensors", step, {"grad_norm": synthetic.probe_row(step, 3)})
    writer.declare_tensors(synthetic.tensor_infos(70))
    writer.declare_arrays("tensors", {"delta_norm": ArraySpec(("row", "tensor"))})
    writer.add_row(
        "tensors", 600, {"grad_norm": synthetic.probe_row(600, 70), "delta_norm": synthetic.probe_row(600, 70)}
    )
    writer.close("finished")
    tree = xr.open_datatree(tmp_path / "run/trace.zarr", engine="zarr", consolidated=False)
    grad, delta = tree["tensors/grad_norm"].values, tree["tensors/delta_norm"].values
    tree.close()
    assert grad.shape == delta.shape == (600, 70)
    np.testing.assert_array_equal(grad[:599, :3], synthetic.expected(599, 3, 0))
    assert np.isnan(grad[:599, 3:]).all()
    assert np.isnan(delta[:599]).all()
    np.testing.assert_array_equal(delta[599], synthetic.probe_row(600, 70))


def test_rollout_batches_of_different_sizes(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    for step, (prompts, generations) in enumerate([(2, 4), (3, 2), (1, 8)], start=1):
        writer.add_row("rollouts", step, {"prompt_id": range(prompts), "reward": np.ones((prompts, generations))})
    writer.close("finished")
    rollouts = open_run(tmp_path / "run").rollouts
    assert rollouts["reward"].sizes == {"row": 3, "prompt": 3, "generation": 8}
    assert np.isfinite(rollouts["reward"].values).sum(axis=(1, 2)).tolist() == [8, 6, 8]
    assert rollouts["prompt_id"].values.tolist() == [[0, 1, -1], [0, 1, 2], [0, -1, -1]]


def test_a_groups_attributes_last(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    writer.describe("rollouts", source="trainer")
    writer.declare_reward_functions(["exact"])
    writer.add_row("rollouts", 1, {"reward": np.ones((1, 2))})
    writer.close("stopped_early")
    writer = TraceWriter.resume(tmp_path / "run", 1)
    writer.add_row("rollouts", 2, {"reward": np.zeros((1, 2))})
    writer.describe("rollouts", note="after a resume")
    writer.close("finished")
    assert open_run(tmp_path / "run").rollouts.attrs == {"source": "trainer", "note": "after a resume"}
    tree = xr.open_datatree(tmp_path / "run" / "trace.zarr", engine="zarr", consolidated=False)
    assert tree["rollouts"].attrs["source"] == "trainer"


def test_a30_every_json_file_is_strict(make_run: RunMaker) -> None:
    """A30: NaN, numpy scalars and paths in attributes leave every document strict JSON."""
    path = make_run()
    writer = TraceWriter.resume(path, 12)
    writer.declare_arrays(
        "tensors", {"odd": ArraySpec(("row", "tensor"), attrs={"eps": np.float32("nan"), "at": path})}
    )
    writer.add_row("tensors", 13, {"odd": np.zeros(9)})
    writer.update_manifest(trainer={"arguments": {"lr": np.float32(0.5), "kl": float("inf"), "dir": path}})
    writer.event(13, "odd", "because", value=np.float64("nan"))
    writer.close("finished")

    def refuse(constant: str) -> Any:
        raise AssertionError(f"bare {constant}")

    documents = [*path.rglob("zarr.json"), path / "run.json", path / "commit.json"]
    assert len(documents) > 40
    for document in documents:
        json.loads(document.read_text(), parse_constant=refuse)
    for line in (path / "events.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    assert open_run(path).manifest.trainer["arguments"] == {"lr": 0.5, "kl": None, "dir": str(path)}


def test_manifest_fields_merge_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest(recorder={"preset": "standard"}))
    writer.update_manifest(recorder={"skipped": [{"what": "x", "why": "y"}]})
    with pytest.raises(UnknownNameError, match="did you mean 'recorder'"):
        writer.update_manifest(recordr={})
    with pytest.raises(SchemaError, match="status"):
        writer.update_manifest(status="great")
    writer.close("stopped_early")
    manifest = open_run(tmp_path / "run").manifest
    assert manifest.recorder == {"preset": "standard", "skipped": [{"what": "x", "why": "y"}]}
    assert manifest.status == "stopped_early"


def test_wrong_rows_are_refused_with_what_was_expected(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 3)
    with pytest.raises(UnknownNameError, match="did you mean 'tensors'"):
        writer.add_row("tensor", 1, {})
    with pytest.raises(UnknownNameError, match="did you mean 'grad_norm'"):
        writer.add_row("tensors", 1, {"grad_nrom": [1, 2, 3]})
    with pytest.raises(UsageError, match="3 on the tensor axis are declared, the value given has 2"):
        writer.add_row("tensors", 1, {"grad_norm": [1, 2]})
    with pytest.raises(UsageError, match=r"dims \('tensor',\), the value given has shape \(\)"):
        writer.add_row("tensors", 1, {"grad_norm": 1.0})
    with pytest.raises(UsageError, match="the first must be 'row'"):
        writer.declare_arrays("tensors", {"x": ArraySpec(("tensor",))})
    with pytest.raises(UsageError, match="of float32, not"):
        writer.declare_arrays("tensors", {"grad_norm": ArraySpec(("row", "tensor"), "float64")})
    with pytest.raises(UsageError, match="declared twice"):
        writer.declare_tensors([*synthetic.tensor_infos(3), synthetic.tensor_infos(1)[0]])
    with pytest.raises(UsageError, match=r"differs at 'model.layers.0.q_proj.weight'"):
        writer.declare_tensors(synthetic.tensor_infos(3)[1:])
    with pytest.raises(UsageError, match="one stack per layer"):
        writer.declare_layers([0, 1], ["model.layers"])
    writer.close("finished")


def test_a_directory_that_holds_anything_is_refused(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run()
    with pytest.raises(DirectoryInUseError, match=r"is not empty .*resume"):
        TraceWriter.create(path, Manifest())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(DirectoryInUseError, match=r"notes\.txt"):
        TraceWriter.create(tmp_path / "other", Manifest())
    assert [entry.name for entry in (tmp_path / "other").iterdir()] == ["notes.txt"]


def test_after_close_nothing_is_written_and_nothing_raises(
    synthetic: SimpleNamespace, make_run: RunMaker, tmp_path: Path
) -> None:
    writer = TraceWriter.create(tmp_path / "closed", Manifest())
    synthetic.declare(writer, 2)
    synthetic.add_step(writer, 1, 2)
    writer.close("finished")
    before = {path: path.read_bytes() for path in writer.run_dir.rglob("*") if path.is_file()}
    synthetic.add_step(writer, 2, 2)
    writer.event(2, "late", "row")
    writer.update_manifest(status="failed")
    assert not writer.flush()
    writer.close("failed")
    assert {path: path.read_bytes() for path in writer.run_dir.rglob("*") if path.is_file()} == before


def test_a25_few_files_for_many_rows(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """A25: chunks have their full size from the first write, so 10,000 rows are few files."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    writer.declare_tensors(synthetic.tensor_infos(40))
    names = [f"probe_{i}" for i in range(12)]
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in names})
    row = np.ones(40, dtype=np.float32)
    for step in range(1, 10_001):
        writer.add_row("tensors", step, dict.fromkeys(names, row))
    writer.close("finished")
    assert sum(1 for path in (tmp_path / "run").rglob("*") if path.is_file()) <= 400
    assert open_run(tmp_path / "run").last_step == 10_000


def test_a24_a_flush_writes_as_many_files_late_as_early(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """A24: the cost of a flush does not grow with what was written before."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 4)
    changed: list[int] = []
    seen: dict[Path, int] = {}
    for step in range(1, 3003):
        synthetic.add_step(writer, step, 4)
        if step in {1, 2, 3001, 3002}:
            writer.flush()
            now = {path: path.stat().st_mtime_ns for path in writer.run_dir.rglob("*") if path.is_file()}
            changed.append(sum(1 for path, time in now.items() if seen.get(path) != time))
            seen = now
    writer.close("finished")
    assert changed[3] <= changed[1]


def test_rollouts_alone_are_no_update_yet(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    writer.add_row("rollouts", 1, {"reward": np.ones((2, 2)), "rewards": np.ones((2, 2, 3))})
    writer.close("stopped_early")
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step) == ("stopped_early", 0)
    assert run.rollouts["reward_function"].values.tolist() == ["reward_0", "reward_1", "reward_2"]


def test_what_an_analysis_needs_is_asked_for_by_name(make_run: RunMaker) -> None:
    path = make_run()
    writer = TraceWriter.resume(path, 12)
    writer.update_manifest(recorder={"skipped": [{"what": "principal_angle", "why": "no base weights"}]})
    writer.close("finished")
    run = open_run(path)
    run.require("grad_norm", "layer_delta", "singular_values", "metrics:loss", "rollouts")
    with pytest.raises(MissingDataError, match=r"'update_nrom'; did you mean 'update_norm'.*record\.probes"):
        run.require("grad_norm", "update_nrom")
    with pytest.raises(MissingDataError, match=r"'principal_angle'.*no base weights"):
        run.require("principal_angle")
    with pytest.raises(
        MissingDataError, match=r"no metric 'los'; did you mean 'loss'\?; the trainer logged: loss, rec"
    ):
        run.require("metrics:los")
    with pytest.raises(MissingDataError, match="holds no evaluations; evaluate while training"):
        run.require("evaluations")


def test_names_and_numbers_that_cannot_be_stored_do_not_cost_their_row(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest(model={"name": "half\ud800"}))
    values = {
        "half\ud800": 1.0,
        "a/b/c": 2.0,
        "": 3.0,
        "grün": 4.0,
        "L" * 5000: 5.0,
        "big": 10**400,
        "small": -(10**400),
    }
    writer.add_row("metrics", 1, values)
    writer.event(1, "byte\udcff", "no text")
    writer.close("finished")
    run = open_run(tmp_path / "run")
    assert run.problems == []
    stored = dict(zip(run.metrics["metric"].values.tolist(), run.metrics["values"].values[0].tolist(), strict=True))
    assert stored.pop("half\\ud800") == 1.0
    assert stored.pop("big") == -stored.pop("small") == math.inf
    assert stored == {key: values[key] for key in ("a/b/c", "", "grün", "L" * 5000)}
    assert run.events[0]["what"] == "byte\\udcff"


def test_a_script_may_change_its_working_directory(
    synthetic: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for start in (0, 1):
        writer = TraceWriter.resume(Path("run"), 1) if start else TraceWriter.create(Path("run"), Manifest())
        synthetic.declare(writer, 3)
        monkeypatch.chdir(tmp_path / "elsewhere")
        synthetic.add_step(writer, start + 1, 3)
        writer.close("finished")
        assert writer.failed is None
        monkeypatch.chdir(tmp_path)
    assert open_run("run").steps("tensors") == [1, 2]
    assert list((tmp_path / "elsewhere").iterdir()) == []
