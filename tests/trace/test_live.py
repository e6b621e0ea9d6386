"""A reader in another process, while the writer flushes as fast as it can."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grpodyn import open_run
from grpodyn.errors import SchemaError
from grpodyn.trace.commit import Commit
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

READER = """
import sys
from pathlib import Path
import numpy as np
from grpodyn import open_run
from grpodyn.trace.commit import Commit

path, seen, opened = Path(sys.argv[1]), 0, 0
print("ready", flush=True)
while seen < int(sys.argv[2]):
    committed = Commit.read(path).rows.get("tensors", 0)
    run = open_run(path)
    count = run.rows["tensors"]
    assert run.problems == [], run.problems
    assert count >= seen and count >= committed, (count, seen, committed)
    if count:
        assert run.status == "running" or count == int(sys.argv[2]), run.status
        steps, values = run.tensors["step"].values, run.tensors["grad_norm"].values
        assert steps.tolist() == list(range(1, count + 1))
        assert (values[:, 0] == 1000 * steps).all()
        logged = run.metrics
        assert np.isfinite(logged["values"].values).any(axis=0).all(), "a name without a value"
    seen, opened = count, opened + 1
    print("looked", flush=True)
print(opened)
"""


def test_a28_a_reader_never_sees_more_or_less_than_is_committed(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """A28: metadata runs ahead of the data while a writer flushes; the commit comes last."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 4)
    rows = 560
    arguments = [sys.executable, "-c", READER, str(tmp_path / "run"), str(rows)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for step in range(1, rows + 1):
            synthetic.add_step(writer, step, 4)
            writer.add_row("metrics", step, {f"name_{step // 8}": 1.0})
            if step % 10 == 0:
                assert writer.flush()
            if step % 100 == 0:
                # However busy the machine is: at least one look for each hundred rows.
                assert reader.stdout.readline() == "looked\n", reader.communicate()[1]
        # The run stays open until the reader has seen its end: status must not turn before.
        writer.flush()
        said, complaint = reader.communicate(timeout=120)
    writer.close("finished")
    assert reader.returncode == 0, complaint
    assert int(said.splitlines()[-1]) > 3


def test_a28_a_torn_commit_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A28: a reader may meet JSON that is half written."""
    whole = json.dumps({"schema_version": 1, "rows": {"tensors": 3}, "axes": {}})
    (tmp_path / "commit.json").write_text(whole[:20])
    timer = threading.Timer(0.03, (tmp_path / "commit.json").write_text, [whole])
    timer.start()
    commit = Commit.read(tmp_path)
    timer.join()
    assert commit is not None
    assert commit.rows == {"tensors": 3}
    (tmp_path / "commit.json").write_text(whole[:20])
    with pytest.raises(SchemaError, match="is damaged"):
        Commit.read(tmp_path)


def test_an_opened_run_shows_one_state(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 4)
    synthetic.add_step(writer, 1, 4)
    writer.flush()
    run = open_run(tmp_path / "run")
    synthetic.add_step(writer, 2, 4)
    writer.close("finished")
    assert run.last_step == 1
    np.testing.assert_array_equal(run.tensors["grad_norm"].values, synthetic.expected(1, 4, 0))


def test_rows_are_committed_without_a_flush(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 4)
    synthetic.add_step(writer, 1, 4)
    waited = threading.Event()
    for _ in range(200):
        if open_run(tmp_path / "run").last_step == 1:
            break
        waited.wait(0.05)
    assert open_run(tmp_path / "run").rows["rollouts"] == 1
    writer.close("finished")


def test_a_script_that_never_closes_keeps_its_rows(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter
writer = TraceWriter.create(Path({str(tmp_path / "run")!r}), Manifest())
writer.add_row("metrics", 1, {{"loss": 2.0}})
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step) == ("interrupted", 1)
    assert run.metric("loss").values.tolist() == [2.0]
