"""A full disk stops recording, in words, and nothing else."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpodyn import open_run
from grpodyn.trace import strict_json
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter


@pytest.fixture
def one_megabyte(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "small"
    mount.mkdir()
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this machine does not let root mount a tmpfs: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def record_until_stopped(synthetic: SimpleNamespace, writer: TraceWriter) -> int:
    synthetic.declare(writer, 300)
    for step in range(1, 5000):
        synthetic.add_step(writer, step, 300)
        if step % 20 == 0:
            writer.flush()
        if writer.failed:
            return step
    raise AssertionError("the disk never filled up")


def check_stopped(writer: TraceWriter, run_dir: Path, synthetic: SimpleNamespace) -> None:
    assert writer.failed is not None
    assert "No space left" in writer.failed
    # Nothing raises any more.
    synthetic.add_step(writer, 6000, 300)
    writer.event(6000, "a", "b")
    writer.update_manifest(recorder={"x": 1})
    assert not writer.flush()
    writer.close("finished")
    run = open_run(run_dir)
    assert run.status == "failed"
    assert "No space left" in run.manifest.recorder["stopped"]
    assert [event["what"] for event in run.events] == ["recording stopped"]
    assert run.last_step >= 20
    count = run.rows["tensors"]
    assert run.tensors["step"].values.tolist() == list(range(1, count + 1))
    assert (run.tensors["grad_norm"].values == synthetic.expected(count, 300, 0)).all()
    assert not list(run_dir.rglob("*.partial"))


def test_a_real_full_disk(synthetic: SimpleNamespace, one_megabyte: Path) -> None:
    writer = TraceWriter.create(one_megabyte / "run", Manifest())
    record_until_stopped(synthetic, writer)
    check_stopped(writer, one_megabyte / "run", synthetic)


def test_a_disk_that_refuses_chunks(
    synthetic: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where no small file system can be mounted."""
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    real = strict_json.replace_file
    written = 0

    def small(path: Path, content: bytes) -> None:
        nonlocal written
        if "trace.zarr" in path.parts:
            written += len(content)
            if written > 1_000_000:
                raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(strict_json, "replace_file", small)
    record_until_stopped(synthetic, writer)
    check_stopped(writer, tmp_path / "run", synthetic)
