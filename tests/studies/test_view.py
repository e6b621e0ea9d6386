"""How a result is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.cli.sweep_view import show
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.runner import carry_out
from tests.studies.conftest import FakePool, Watcher


@pytest.mark.parametrize("width", [80, 120])
def test_a_result_fits_the_terminal_and_says_what_was_found(two_arms, tmp_path, width):
    planned = planned_runs(two_arms, tmp_path)
    finished = carry_out(two_arms, planned, [], tmp_path / "out", FakePool, Watcher())
    console = Console(file=io.StringIO(), width=width)
    show(console, finished.result)
    said = console.file.getvalue()
    table, _, claims = said.partition("•")
    assert max(len(line) for line in table.splitlines()) <= width
    for word in ("Does KL protect?", "none", "kl", "0.502", "paired by seed", "×"):
        assert word in said
    assert "perplexity_ratio/text" in claims


def test_only_reading_promises_no_file_and_names_what_goes_on(two_arms, tmp_path):
    """`two_arms` has written study.yaml."""
    study, folder = tmp_path / "study.yaml", tmp_path / "out"
    done = CliRunner().invoke(build(), ["sweep", str(study), "-o", str(folder), "--only-read"])
    assert done.exit_code == 0
    assert "6 runs are not done; the command goes on without --only-read" in done.output
    assert "results.json" not in done.output
    assert not folder.exists()
