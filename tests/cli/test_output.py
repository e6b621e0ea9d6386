"""Standard output that cannot be written ends no training, and no other command with a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpodyn.cli.output import LastingOutput

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this platform has no /dev/full")


class Disk(io.StringIO):
    """A stream on a disk that is full after some writes."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def write(self, text: str) -> int:
        if self.left == 0:
            raise OSError(28, "No space left on device")
        self.left -= 1
        return super().write(text)


def test_what_can_be_written_is_and_the_rest_is_dropped() -> None:
    disk = Disk(2)
    output = LastingOutput(disk)
    assert [output.write(text) for text in ("a", "b", "c", "d")] == [1, 1, 1, 1]
    output.flush()
    assert disk.getvalue() == "ab"
    assert output.failed == "No space left on device"
    assert not output.isatty()


@needs_full
@pytest.mark.parametrize("arguments", [("probes",), ("probes", "--json"), ("--help",)])
def test_a_command_says_in_one_line_that_it_cannot_write(arguments: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "grpodyn", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr.strip() == "grpodyn: cannot write to standard output: No space left on device"
    assert done.returncode == 3


@needs_full
@pytest.mark.slow
def test_training_goes_on_where_nobody_can_read_how_far_it_is(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "grpodyn",
        "record",
        "--run-dir",
        str(tmp_path / "run"),
        "--set",
        "grpo.max_steps=2",
    ]
    command += ["--set", "evaluate=null"]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "standard output could not be written (No space left on device)" in done.stderr
    assert (tmp_path / "run" / "model").is_dir()


def test_a_reader_that_leaves_ends_nothing(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        output = LastingOutput(stream)
        output.write("x" * 100)
        output.flush()
        assert output.failed == "Broken pipe"
        output.write("more")
