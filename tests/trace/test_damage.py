"""Damaged stores open, say what is damaged, and can be mended; what is no run is refused in words."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
import zarr
from numcodecs.zstd import Zstd

from grpodyn import open_run
from grpodyn.errors import DirectoryInUseError, NotARunError, SchemaError, UnreadableError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.overview import overview
from grpodyn.trace.repair import repair
from grpodyn.trace.verify import zstd_frame_size
from grpodyn.trace.writer import TraceWriter

RunMaker = Callable[..., Path]


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("harm", "named"), [(half, "truncated chunk"), (empty, "empty chunk")])
def test_a27_a_bad_chunk_is_named_and_the_rest_is_read(
    synthetic: SimpleNamespace, make_run: RunMaker, harm: Callable[[Path], None], named: str
) -> None:
    """A27: half a chunk, or none of it, where a write was cut off."""
    path = make_run(steps=600)
    harm(path / "trace.zarr/tensors/update_norm/c/0/0")
    run = open_run(path)
    assert len(run.problems) == 1
    assert "tensors/update_norm/c/0/0" in run.problems[0]
    assert named in run.problems[0]
    values = run.tensors["update_norm"].values
    assert np.isnan(values[:512]).all()
    np.testing.assert_array_equal(values[512:], synthetic.expected(600, 9, 1)[512:])
    np.testing.assert_array_equal(run.tensors["grad_norm"].values, synthetic.expected(600, 9, 0))

    done = repair(path)
    assert any("tensors/update_norm/c/0/0" in sentence and "damaged/" in sentence for sentence in done)
    mended = open_run(path)
    assert mended.problems == []
    np.testing.assert_array_equal(mended.tensors["update_norm"].values, values)
    tree = xr.open_datatree(path / "trace.zarr", engine="zarr", consolidated=False)
    np.testing.assert_array_equal(tree["tensors/update_norm"].values, values)
    tree.close()
    assert (path / "damaged/tensors/update_norm/c/0/0").exists()
    assert repair(path) == []


@pytest.mark.parametrize(
    "lost", ["tensors/update_norm/c/1/0", "tensors/step/c/0", "tensors/step/c/2", "metrics/values/c/1/0"]
)
def test_a_chunk_that_is_gone_is_named_and_filled(make_run: RunMaker, lost: str) -> None:
    path = make_run(steps=1100)
    assert open_run(path).problems == []
    (path / "trace.zarr" / lost).unlink()
    assert f"{lost}: missing chunk" in open_run(path).problems
    assert f"{lost}: missing chunk, filled with missing values" in repair(path)
    assert not [problem for problem in open_run(path).problems if "missing chunk" in problem]


def test_an_array_without_values_for_a_whole_chunk_has_lost_nothing(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """A probe that is measured every 900 steps, one that comes late, one that ends early."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 2)
    row = np.array([1.0, 2.0], dtype=np.float32)
    for step in range(1, 2401):
        values = {"grad_norm": row} if step % 900 == 1 else {}
        if step > 1100:
            values["update_norm"] = row
        writer.add_row("tensors", step, values)
    writer.close("finished")
    run = open_run(tmp_path / "run")
    assert run.problems == []
    assert np.flatnonzero(np.isfinite(run.tensors["grad_norm"].values[:, 0])).tolist() == [0, 900, 1800]
    assert np.isfinite(run.tensors["update_norm"].values[1100:]).all()


def test_a_flipped_bit_is_found_when_the_chunk_is_read(make_run: RunMaker) -> None:
    path = make_run()
    flip_a_bit(path / "trace.zarr/metrics/values/c/0/0")
    run = open_run(path)
    assert len(run.metric("loss")) == 0
    assert run.problems == ["metrics/values/c/0/0: unreadable chunk, its values are missing"]


@pytest.mark.parametrize(
    "array", ["tensors/grad_norm", "spectra/singular_values", "rollouts/rewards", "metrics/values"]
)
@pytest.mark.parametrize("harm", [half, empty, Path.unlink])
def test_a_lost_array_document_is_named_and_written_anew(
    make_run: RunMaker, array: str, harm: Callable[[Path], None]
) -> None:
    path = make_run()
    group, name = array.split("/")
    whole = getattr(open_run(path), group)[name].values
    harm(path / "trace.zarr" / array / "zarr.json")
    run = open_run(path)
    assert any(f"{array}/zarr.json" in problem for problem in run.problems)
    assert name not in getattr(run, group)
    assert "update_norm" in run.tensors
    assert f"wrote {array}/zarr.json anew" in repair(path)
    mended = open_run(path)
    np.testing.assert_array_equal(getattr(mended, group)[name].values, whole)
    assert mended.problems == []


@pytest.mark.parametrize(
    "document", ["zarr.json", "tensors/zarr.json", "tensors/step/zarr.json", "tensors/kind/zarr.json"]
)
def test_other_lost_documents_are_written_anew(synthetic: SimpleNamespace, make_run: RunMaker, document: str) -> None:
    path = make_run()
    empty(path / "trace.zarr" / document)
    assert any(problem.startswith(document) for problem in open_run(path).problems)
    repair(path)
    run = open_run(path)
    assert run.problems == []
    np.testing.assert_array_equal(run.tensors["grad_norm"].values, synthetic.expected(12, 9, 0))
    assert run.tensors["kind"].values.tolist() == ["linear"] * 9
    tree = xr.open_datatree(path / "trace.zarr", engine="zarr", consolidated=False)
    assert tree["tensors/grad_norm"].shape == (12, 9)
    tree.close()


def test_lost_names_come_back_from_the_other_group(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    path = make_run()
    empty(path / "trace.zarr/tensors/tensor/c/0")
    run = open_run(path)
    assert run.tensors["tensor"].values.tolist() == [f"tensor_{i}" for i in range(9)]
    assert any("numbered instead" in problem for problem in run.problems)
    repair(path)
    names = [tensor.name for tensor in synthetic.tensor_infos(9)]
    assert open_run(path).tensors["tensor"].values.tolist() == names


@pytest.mark.parametrize("harm", [half, empty, Path.unlink])
def test_a_lost_commit_is_counted_anew(make_run: RunMaker, harm: Callable[[Path], None]) -> None:
    path = make_run(status=None)
    harm(path / "commit.json")
    run = open_run(path)
    assert run.last_step == 12
    assert "commit.json" in run.problems[0]
    assert any("counted the rows anew" in sentence for sentence in repair(path))
    run = open_run(path)
    assert (run.problems, run.rows["tensors"], run.rows["spectra"]) == ([], 12, 2)
    assert run.metric("loss").values.tolist() == [1 / s for s in range(1, 13)]


def test_repair_cuts_a_killed_run_so_that_plain_xarray_reads_it(make_run: RunMaker) -> None:
    path = make_run(status=None)
    (path / "trace.zarr/tensors/grad_norm/c/0/0.1234.partial").write_bytes(b"half")
    done = repair(path)
    assert "deleted 1 half-written files" in done
    assert "cut tensors from 512 stored rows to the 12 committed" in done
    tree = xr.open_datatree(path / "trace.zarr", engine="zarr", consolidated=False)
    assert tree["tensors/grad_norm"].shape == (12, 9)
    tree.close()
    assert open_run(path).status == "interrupted"


def test_a_damaged_run_is_not_resumed_before_it_is_mended(make_run: RunMaker) -> None:
    path = make_run()
    half(path / "trace.zarr/tensors/grad_norm/c/0/0")
    with pytest.raises(UnreadableError, match=r"status .* --repair"):
        TraceWriter.resume(path, 12)
    repair(path)
    TraceWriter.resume(path, 12).close("finished")


def test_a_living_run_is_not_repaired(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    with pytest.raises(DirectoryInUseError, match="is being written by"):
        repair(tmp_path / "run")
    writer.close("finished")


def test_a_lost_store_is_a_problem_not_a_crash(make_run: RunMaker) -> None:
    path = make_run()
    (path / "trace.zarr").rename(path / "elsewhere")
    run = open_run(path)
    assert run.status == "empty"
    assert any("trace.zarr is missing" in problem for problem in run.problems)


class TestNoRun:
    """A31: what is no run, or one of another format or version, is called what it is; reading creates nothing."""

    def test_a31_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(NotARunError, match="does not exist"):
            open_run(tmp_path / "nowhere")
        assert list(tmp_path.iterdir()) == []

    def test_a31_an_ordinary_folder(self, tmp_path: Path) -> None:
        with pytest.raises(NotARunError, match="holds no run"):
            open_run(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a31_the_folder_above_runs(self, make_run: RunMaker, tmp_path: Path) -> None:
        make_run("a")
        with pytest.raises(NotARunError, match="it holds the runs a"):
            open_run(tmp_path)

    def test_a31_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "log.txt").write_text("x")
        with pytest.raises(NotARunError, match="is a file"):
            open_run(tmp_path / "log.txt")

    def test_a31_the_store_inside_a_run(self, make_run: RunMaker) -> None:
        with pytest.raises(NotARunError, match="is the store inside a run"):
            open_run(make_run() / "trace.zarr")

    def test_a31_a_foreign_zarr_store(self, tmp_path: Path) -> None:
        zarr.create_group(str(tmp_path / "x.zarr"), zarr_format=3)
        with pytest.raises(NotARunError, match="a Zarr store but no run"):
            open_run(tmp_path / "x.zarr")

    @pytest.mark.parametrize("inside_a_run", [True, False])
    def test_a31_a_format_2_store(self, make_run: RunMaker, tmp_path: Path, inside_a_run: bool) -> None:
        path = make_run() if inside_a_run else tmp_path
        store = path / "trace.zarr"
        if inside_a_run:
            store.rename(path / "old")
        zarr.create_group(str(store), zarr_format=2)
        with pytest.raises(SchemaError, match="Zarr format 2"):
            open_run(path)

    @pytest.mark.parametrize(
        ("version", "advice"),
        [(2, "reads version 1: upgrade grpodyn"), (None, "schema version None"), ("1", "is it a")],
    )
    def test_a31_another_schema(self, make_run: RunMaker, version: object, advice: str) -> None:
        path = make_run()
        manifest = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(manifest | {"schema_version": version}))
        with pytest.raises(SchemaError, match=advice):
            open_run(path)

    def test_a31_a_damaged_manifest(self, make_run: RunMaker) -> None:
        path = make_run()
        empty(path / "run.json")
        with pytest.raises(SchemaError, match="is not JSON"):
            open_run(path)

    def test_a31_a_path_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError, match="cannot be read"):
            open_run(tmp_path / ("x" * 300))


@pytest.mark.parametrize("size", [1, 1000, 300_000])
def test_frame_size_follows_the_format(tmp_path: Path, size: int) -> None:
    rng = np.random.default_rng(size)
    for content in (b"\0" * size, rng.bytes(size), bytes(rng.integers(0, 4, size, dtype=np.uint8))):
        for checksum in (True, False):
            frame = Zstd(level=1, checksum=checksum).encode(content)
            (tmp_path / "chunk").write_bytes(frame)
            assert zstd_frame_size(tmp_path / "chunk") == len(frame)
            for cut in {1, len(frame) // 2, len(frame) - 5} - {0}:
                (tmp_path / "chunk").write_bytes(frame[: len(frame) - cut])
                assert zstd_frame_size(tmp_path / "chunk") != len(frame) - cut


HOSTILE = [None, True, -1, 10**30, 1.5, "x", [], {}, [1], {"a": 1}]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize(
    "where", [["rows"], ["axes"], ["rows", "tensors"], ["axes", "metrics"], ["axes", "metrics", "metric"]], ids=".".join
)
def test_a_commit_that_no_writer_wrote_is_counted_anew(make_run: RunMaker, where: list[str], value: object) -> None:
    path = make_run()
    content = json.loads((path / "commit.json").read_bytes())
    holder = content
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = value
    (path / "commit.json").write_text(json.dumps(content))
    run = open_run(path)
    if isinstance(value, dict):  # Nothing is committed, as far as can be told.
        assert overview(run).rows["tensors"] in (0, 12)
    else:
        assert overview(run).rows["tensors"] == 12
        assert any("commit.json is damaged" in problem for problem in run.problems)


@pytest.mark.parametrize(
    "event", [*HOSTILE, *({"step": value, "what": "a", "why": "b"} for value in HOSTILE)], ids=repr
)
def test_a_line_that_is_no_event_is_named_and_left_out(make_run: RunMaker, event: object) -> None:
    path = make_run()
    (path / "events.jsonl").write_text(
        json.dumps(event) + "\n" + json.dumps({"step": 3, "what": "a", "why": "b"}) + "\n"
    )
    problems = overview(open_run(path)).problems
    valid = isinstance(event, dict) and type(event.get("step")) is int
    assert ("events.jsonl: line 1 is no event" in problems) is not valid
    assert "step 3: a: b" in problems or valid


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", [], {}], ids=repr)
@pytest.mark.parametrize("key", ["index", "start_step"])
def test_a_segment_without_its_numbers_is_refused(make_run: RunMaker, key: str, value: object) -> None:
    path = make_run()
    content = json.loads((path / "run.json").read_bytes())
    content["segments"][0][key] = value
    (path / "run.json").write_text(json.dumps(content))
    with pytest.raises(SchemaError, match=f"segments.*{key} is"):
        open_run(path)


@pytest.mark.parametrize("names", [["x", "metric"], ["metric", "row"], None], ids=repr)
def test_an_array_whose_dimensions_make_no_sense_is_left_out(make_run: RunMaker, names: list[str] | None) -> None:
    path = make_run()
    document = path / "trace.zarr/metrics/values/zarr.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "dimension_names": names}))
    run = open_run(path)
    assert "values" not in run.metrics
    assert any("metrics/values: unreadable array, left out" in problem for problem in run.problems)


@pytest.mark.parametrize("name", ["0/999999999", "1/0", "0/00", "0/\u00b2", "x", "99999999999999999999/0"])
def test_a_file_that_is_no_chunk_of_the_grid_is_no_sign_of_losses(make_run: RunMaker, name: str) -> None:
    path = make_run()
    stray = path / "trace.zarr/metrics/values/c" / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    assert not [problem for problem in open_run(path).problems if "missing chunk" in problem]
