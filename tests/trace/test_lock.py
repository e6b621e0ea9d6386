"""One writer a directory; readers look without disturbing it; forks have no part in it."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpodyn import open_run
from grpodyn.errors import DirectoryInUseError
from grpodyn.trace import lock
from grpodyn.trace.lock import HEARTBEAT_SECONDS, WriterLock, living_writer
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

RunMaker = Callable[..., Path]

HOLD = """
import sys, time
from pathlib import Path
from grpodyn.trace.lock import WriterLock
held = WriterLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a26_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """A26: two writers on one store would lose each other's rows."""
    first = TraceWriter.create(tmp_path / "run", Manifest())
    with pytest.raises(DirectoryInUseError, match=f"is being written by process {os.getpid()} on "):
        TraceWriter.create(tmp_path / "run", Manifest())
    with pytest.raises(DirectoryInUseError, match="is being written by"):
        TraceWriter.resume(tmp_path / "run", 0)
    first.close("finished")
    TraceWriter.resume(tmp_path / "run", 0).close("finished")


def test_another_process_is_refused_until_it_is_killed(make_run: RunMaker) -> None:
    path = make_run()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        owner = living_writer(path)
        assert owner is not None
        assert owner["pid"] == holder.pid
        with pytest.raises(DirectoryInUseError, match=f"process {holder.pid}"):
            TraceWriter.resume(path, 12)
        os.kill(holder.pid, signal.SIGKILL)
    assert living_writer(path) is None
    TraceWriter.resume(path, 12).close("finished")


def test_readers_do_not_keep_a_writer_out(make_run: RunMaker) -> None:
    path = make_run()
    held = WriterLock.acquire(path)
    for _ in range(50):
        assert living_writer(path) is not None
    held.release()
    assert living_writer(path) is None
    reader = os.open(path / "writer.lock", os.O_RDONLY)
    assert lock._try_lock(reader, exclusive=False) is False
    # A reader caught in the very moment of looking: the writer tries again.
    timer = __import__("threading").Timer(0.1, os.close, [reader])
    timer.start()
    WriterLock.acquire(path).release()
    timer.join()


def test_reading_a_run_creates_no_file(make_run: RunMaker) -> None:
    path = make_run()
    (path / "writer.lock").unlink()
    before = sorted(path.rglob("*"))
    assert open_run(path).tensors["grad_norm"].values.shape == (12, 9)
    assert sorted(path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Forking here is the very point.
def test_a32_a_forked_child_neither_writes_nor_keeps_the_lock(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    """A32: data-loader workers are forks of the process that writes."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    synthetic.declare(writer, 3)
    synthetic.add_step(writer, 1, 3)
    writer.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        synthetic.add_step(writer, 2, 3)
        writer.event(2, "child", "wrote")
        flushed = writer.flush()
        writer.close("failed")
        os.write(write_end, f"{flushed} {writer.failed}".encode())
        time.sleep(60)
        os._exit(0)
    said = os.read(read_end, 200).decode()
    os.close(read_end)
    os.close(write_end)
    assert said == "False this process is a fork of the one that records"
    writer.close("finished")
    # The child lives on; its parent's lock is free all the same.
    assert living_writer(tmp_path / "run") is None
    TraceWriter.resume(tmp_path / "run", 1).close("finished")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step, run.events) == ("finished", 1, [])


class TestWithoutFileLocks:
    """A file system that knows no locks: host, boot id, process and heartbeat decide."""

    @pytest.fixture(autouse=True)
    def _no_flock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "no locks available")

        monkeypatch.setattr("fcntl.flock", refuse)

    def test_a_living_writer_is_seen_and_a_second_refused(self, tmp_path: Path) -> None:
        writer = TraceWriter.create(tmp_path / "run", Manifest())
        assert open_run(tmp_path / "run").status == "running"
        with pytest.raises(DirectoryInUseError, match="is being written by"):
            TraceWriter.resume(tmp_path / "run", 0)
        writer.close("finished")
        TraceWriter.resume(tmp_path / "run", 0).close("finished")

    @pytest.mark.parametrize(
        ("change", "alive"),
        [
            ({}, True),
            ({"pid": 2**22 + 1}, False),  # No such process.
            ({"boot_id": "another boot"}, False),  # The machine was restarted since.
            ({"host": "elsewhere", "boot_id": "x"}, True),  # Another machine, a fresh heartbeat.
            ({"host": "elsewhere", "boot_id": "x", "heartbeat": -61.0}, False),
        ],
    )
    def test_who_counts_as_alive(self, tmp_path: Path, change: dict[str, object], alive: bool) -> None:
        WriterLock.acquire(tmp_path)
        owner = json.loads((tmp_path / "writer.lock").read_text())
        if "heartbeat" in change:
            change = {**change, "heartbeat": owner["heartbeat"] + change["heartbeat"]}
        (tmp_path / "writer.lock").write_text(json.dumps(owner | change))
        assert (living_writer(tmp_path) is not None) == alive


def test_another_machines_heartbeat_counts_although_the_lock_is_free(make_run: RunMaker) -> None:
    # Some cluster file systems lock within one machine only.
    path = make_run(status=None)
    owner = {"host": "node-7", "boot_id": "x", "pid": 5, "heartbeat": time.time()}
    (path / "writer.lock").write_text(json.dumps(owner))
    assert open_run(path).status == "running"
    with pytest.raises(DirectoryInUseError, match="process 5 on node-7"):
        TraceWriter.resume(path, 12)
    (path / "writer.lock").write_text(json.dumps(owner | {"heartbeat": time.time() - 61}))
    assert open_run(path).status == "interrupted"


def test_the_heart_beats_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, wall, steady = WriterLock.acquire(tmp_path), time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: wall - 3600)
    monkeypatch.setattr(time, "monotonic", lambda: steady + HEARTBEAT_SECONDS + 1)
    lock.beat()
    assert json.loads((tmp_path / "writer.lock").read_text())["heartbeat"] == wall - 3600
    monkeypatch.undo()
    lock.release()
