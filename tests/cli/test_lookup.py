"""A run may be named by its directory, by the beginning of its name or id, or as `latest`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.cli.lookup import find_run, find_runs
from grpodyn.errors import NotARunError, UsageError

STORED = Path(__file__).parents[1] / "data/trace_v1"


def make(folder: Path, name: str, created: str, run_id: str, resumed: str | None = None) -> Path:
    path = folder / name
    shutil.copytree(STORED, path)
    manifest = json.loads((path / "run.json").read_text())
    segments = [{"index": 0, "start_step": 0, "started_at": created}]
    if resumed is not None:
        segments.append({"index": 1, "start_step": 0, "started_at": resumed})
    manifest |= {"created_at": created, "run_id": run_id, "segments": segments}
    (path / "run.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "runs", "full-s0", "2026-01-01T00:00:00+00:00", "20260101-aaa", resumed="2026-01-04T00:00:00+00:00")
    make(tmp_path / "runs", "full-s1", "2026-01-03T00:00:00+00:00", "20260103-bbb")
    make(tmp_path / "runs", "lora", "2026-01-02T00:00:00+00:00", "20260102-ccc")
    make(tmp_path / "old", "lora", "2025-01-01T00:00:00+00:00", "20250101-ddd")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("runs/lora", "runs/lora"),
        ("lora", "runs/lora"),
        ("lo", "runs/lora"),
        ("full-s1", "runs/full-s1"),
        ("20260103", "runs/full-s1"),
        # Started last: a run that was taken up again counts from then.
        ("latest", "runs/full-s0"),
        ("old/latest", "old/lora"),
        ("old/l", "old/lora"),
        ("old", "old"),  # what exists is taken as it is
    ],
)
def test_what_is_found(here: Path, wanted: str, found: str) -> None:
    assert find_run(Path(wanted)) == Path(found)


def test_a_whole_name_wins_over_longer_ones(here: Path) -> None:
    make(here / "runs", "lora-2", "2026-01-01T00:00:00+00:00", "x")
    assert find_run(Path("lora")) == Path("runs/lora")


def test_several_are_a_usage_error_that_lists_them(here: Path) -> None:
    with pytest.raises(UsageError, match="full may be full-s0, full-s1: give more of the name"):
        find_run(Path("full"))


def test_none_is_an_error_that_names_what_is_there(here: Path) -> None:
    with pytest.raises(NotARunError, match=r"did you mean 'lora'\?; runs and \. holds full-s0, full-s1, lora"):
        find_run(Path("lroa"))
    with pytest.raises(NotARunError, match="absent holds no runs"):
        find_run(Path("absent/latest"))


def test_a_run_whose_manifest_is_damaged_is_never_the_latest(here: Path) -> None:
    (here / "runs/full-s0/run.json").write_text("{")
    assert find_run(Path("latest")) == Path("runs/full-s1")


def test_several_names(here: Path) -> None:
    assert find_runs([Path("lora"), Path("latest")]) == [Path("runs/lora"), Path("runs/full-s0")]


@pytest.mark.parametrize("command", [["status"], ["watch", "--once"], ["compare"], ["diagnose"]])
def test_commands_take_what_is_meant(here: Path, command: list[str]) -> None:
    result = CliRunner().invoke(build(), [*command, "latest"])
    assert result.exit_code == 0, result.output
    assert "full-s0" in result.output


def test_a_mistake_ends_with_the_code_of_usage(here: Path, monkeypatch, capsys) -> None:
    from grpodyn.cli.app import main  # noqa: PLC0415  # as the program is started

    monkeypatch.setattr("sys.argv", ["grpodyn", "status", "full"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "give more of the name" in capsys.readouterr().err


def test_a_run_that_is_meant_twice_is_no_second_seed(here: Path) -> None:
    with pytest.raises(UsageError, match="lora is given twice, expected different runs"):
        find_runs([Path("lora"), Path("runs/../runs/lora")])


def test_a_folder_of_runs_is_refused_with_their_names(here: Path) -> None:
    refused = CliRunner().invoke(build(), ["diagnose", "runs"]).exception
    assert isinstance(refused, NotARunError)
    assert "it holds the runs full-s0, full-s1, lora" in str(refused)


def test_a_path_that_cannot_be_written_is_one_line(here: Path, monkeypatch, capsys) -> None:
    from grpodyn.cli.app import main  # noqa: PLC0415  # as the program is started

    (here / "file").write_text("somebody's")
    monkeypatch.setattr("sys.argv", ["grpodyn", "export", "lora", "--to", "csv", "-o", "file/out"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (2, 3)
    assert capsys.readouterr().err.startswith("grpodyn: file")
