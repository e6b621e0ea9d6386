"""A terminal that cannot show every character still gets every line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from grpodyn.cli.app import build
from tests.simulation.whole_run import write_whole_run

STORED = Path(__file__).parents[1] / "data/trace_v1"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_ends_a_command(encoding: str) -> None:
    command = [sys.executable, "-c", "from grpodyn.cli.app import main; main()", "status", str(STORED)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("→".encode() in done.stdout) is (encoding == "utf-8")
    assert (b"\\u2192" in done.stdout) is (encoding != "utf-8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("a-rather-long-name-that-somebody-gave-to-the-run", "b")):
        write_whole_run(folder / name, layers=80, steps=60, every=5, planned=100, seed=seed)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "status {a}",
        "runs {runs}",
        "watch {a} --once",
        "forecast {a}",
        "diagnose {a} --all",
        "group-size {a}",
        "group-size {a} {b}",
        "compare {a} {b}",
        "forgetting {a}",
        "power {a} {b} --difference 0.05",
        "probes",
        "analyses",
    ],
)
def test_a51_tables_of_80_layers_fit_80_columns(runs: Path, words: str) -> None:
    a, b = sorted(runs.iterdir())
    arguments = [word.format(runs=runs, a=a, b=b) for word in words.split()]
    shown = CliRunner().invoke(build(), arguments, env={"COLUMNS": "80", "LINES": "24"})
    assert shown.exit_code == 0, (shown.output, shown.exception)
    # A path or a command to copy may not be broken.
    lines = [line for line in shown.output.splitlines() if str(runs) not in line and "grpodyn " not in line]
    assert not [line for line in lines if cell_len(line) > 80]
    if runs.name in " ".join(arguments):
        assert len(lines) < 90, "a few screenfuls, whatever the number of tensors"
