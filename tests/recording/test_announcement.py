"""What the recorder says reaches somebody, and what stands around it does not stop it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig

LOGGER = logging.getLogger("grpodyn")


@contextmanager
def bare_logging() -> Iterator[None]:
    """Logging as a script has it that never set it up; no fixture, for pytest adds its handlers after those."""
    before = list(LOGGER.handlers), LOGGER.level, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [], False
    try:
        yield
    finally:
        LOGGER.handlers, LOGGER.propagate = before[0], before[2]
        LOGGER.setLevel(before[1])


def test_a_bare_script_sees_what_is_recorded_and_what_not(tmp_path: Path, make_trainer, capsys):
    with bare_logging():
        for name in ("a", "b"):
            make_trainer(callbacks=[Recorder(tmp_path / name)], max_steps=1).train()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("grpodyn: recording into")]
    assert [str(tmp_path / name) in line for name, line in zip("ab", lines, strict=True)] == [True, True]
    assert all("Not recorded: " in line and "CPU seconds" in line for line in lines)


def test_logging_that_somebody_set_up_is_left_alone(tmp_path: Path, make_trainer, capsys):
    with bare_logging():
        LOGGER.addHandler(logging.NullHandler())
        make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1).train()
        assert len(LOGGER.handlers) == 1
    assert "recording into" not in capsys.readouterr().err


def test_a_working_directory_that_is_gone(tmp_path: Path, make_trainer, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1)
    (tmp_path / "gone").rmdir()
    trainer.train()
    os.chdir(tmp_path)
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step) == ("finished", 1)


def test_what_was_said_is_not_said_again_where_a_run_goes_on(tmp_path: Path, make_trainer, capsys):
    with bare_logging():
        make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1).train()
        make_trainer(callbacks=[Recorder(tmp_path / "run", append=True)], max_steps=1).train()
        make_trainer(
            callbacks=[Recorder(tmp_path / "run", RecordConfig(preset="light"), append=True)], max_steps=1
        ).train()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("grpodyn: recording")]
    assert ["Not recorded: " in line for line in lines] == [True, False, True], "another preset is said in full"
    assert "recording on into" in lines[1]
    assert "as before: preset standard" in lines[1]
