"""A terminal that cannot show every character still gets every line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STORED = Path(__file__).parents[1] / "data/trace_v1"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_ends_a_command(encoding: str) -> None:
    command = [sys.executable, "-c", "from grpodyn.cli.app import main; main()", "status", str(STORED)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("→".encode() in done.stdout) is (encoding == "utf-8")
    assert (b"\\u2192" in done.stdout) is (encoding != "utf-8")
