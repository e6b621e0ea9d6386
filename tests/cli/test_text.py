"""What stands in a run is data: it neither styles nor steers the terminal that shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build

STORED = Path(__file__).parents[1] / "data/trace_v1"
HOSTILE = "a\x1b[2Jb\x9bc\u202ed [red]e[/red] grün"


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    path = tmp_path / "[red]run\x1b[31m"
    shutil.copytree(STORED, path)
    with (path / "events.jsonl").open("a") as events:
        events.write(json.dumps({"step": 1, "what": HOSTILE, "why": HOSTILE}) + "\n")
    manifest = json.loads((path / "run.json").read_text())
    manifest["recorder"]["skipped"] = [{"what": HOSTILE, "why": HOSTILE}]
    manifest["run_id"] = HOSTILE
    manifest["config"] = {"model": {"path": HOSTILE}, HOSTILE: HOSTILE}
    manifest["trainer"] = {"arguments": {HOSTILE: HOSTILE}}
    (path / "run.json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize("command", ["status", "runs", "compare"])
def test_a_terminal_is_given_text_alone(hostile_run: Path, command: str) -> None:
    others = [str(STORED)] if command == "compare" else []
    target = hostile_run.parent if command == "runs" else hostile_run
    shown = CliRunner().invoke(build(), [command, str(target), *others], env={"COLUMNS": "400"})
    assert shown.exception is None
    assert "[red]" in shown.output
    assert "\\x1b[31m" in shown.output
    assert not any(character in shown.output for character in "\x1b\x9b\u202e")
