"""Which directory a recorder writes to, whatever the path looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.errors import UsageError
from grpodyn.recording.directory import open_writer
from grpodyn.trace.manifest import Manifest


@pytest.mark.parametrize("path", [".", "./", "../used", "x/.."])
def test_a_path_without_a_name_of_its_own_gets_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str):
    (tmp_path / "used/x").mkdir(parents=True)
    (tmp_path / "used/file").write_text("somebody's")
    monkeypatch.chdir(tmp_path / "used")
    writer, resumed = open_writer(Path(path), Manifest(), 0)
    writer.close("finished")
    assert (writer.run_dir, resumed) == (tmp_path / "used-2", False)
    assert sorted(entry.name for entry in (tmp_path / "used").iterdir()) == ["file", "x"]


def test_a_file_of_that_name_is_left_alone(tmp_path: Path):
    (tmp_path / "run").write_text("somebody's")
    writer, _ = open_writer(tmp_path / "run", Manifest(), 0)
    writer.close("finished")
    assert writer.run_dir == tmp_path / "run-2"
    assert (tmp_path / "run").read_text() == "somebody's"


@pytest.mark.parametrize("name", ["file/run", "x" * 300])
def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path, name: str):
    (tmp_path / "file").write_text("somebody's")
    with pytest.raises(UsageError, match=f"{name} cannot be made: "):
        open_writer(tmp_path / name, Manifest(), 0)
