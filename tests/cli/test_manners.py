"""How the command line behaves, whatever the command: suggestions, colours, pipes, completion, width, verbosity."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import WORKS_ON, build, main
from grpodyn.cli.verbosity import colours, is_quiet, set_verbosity
from grpodyn.errors import UsageError
from tests.cli.test_help import NAMES

STORED = Path(__file__).parents[1] / "data/trace_v1"


@pytest.fixture(autouse=True)
def as_before():
    yield
    log = logging.getLogger("grpodyn")
    log.setLevel(logging.NOTSET)
    log.handlers.clear()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["recrod"], "record"),
        (["grop-size"], "group-size"),
        (["status", "--jsn"], "--json"),
        (["--verison"], "--version"),
    ],
)
def test_a_misspelt_command_or_option_is_answered_with_the_one_that_is_meant(typed: list[str], meant: str) -> None:
    result = CliRunner().invoke(build(), typed)
    assert result.exit_code == 2
    assert meant in result.output


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_80_columns(name: str) -> None:
    result = CliRunner().invoke(build(), [name, "--help"], env={"COLUMNS": "80"})
    assert max(len(line) for line in result.output.splitlines()) <= 80


@pytest.mark.parametrize("arguments", [["status"], ["compare"], ["watch", "--once"], ["diagnose", "--all"]])
def test_what_commands_print_fits_80_columns(arguments: list[str], monkeypatch) -> None:
    # The path of the run is shown whole, so it must be short.
    monkeypatch.chdir(STORED.parent)
    result = CliRunner().invoke(build(), [*arguments, STORED.name], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_no_color_is_honoured(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours() is False
    shown = CliRunner().invoke(build(), ["status", str(STORED)], env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[3" not in shown.output  # a colour; bold is none
    monkeypatch.delenv("NO_COLOR")
    assert colours() is None


def test_quiet_and_verbose() -> None:
    set_verbosity(quiet=True, verbose=False)
    assert is_quiet()
    set_verbosity(quiet=False, verbose=False)
    assert not is_quiet()
    with pytest.raises(UsageError, match="give one of them"):
        set_verbosity(quiet=True, verbose=True)


def test_verbose_tells_of_what_is_odd_in_a_run(tmp_path: Path) -> None:
    import shutil  # noqa: PLC0415

    shutil.copytree(STORED, tmp_path / "run")
    (tmp_path / "run" / "commit.json").unlink()
    loud = CliRunner().invoke(build(), ["--verbose", "status", str(tmp_path / "run")])
    assert "grpodyn.trace.reader: " in loud.stderr
    assert "commit.json is missing" in loud.stderr
    logging.getLogger("grpodyn").handlers.clear()
    assert CliRunner().invoke(build(), ["status", str(tmp_path / "run")]).stderr == ""


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="this platform has no SIGPIPE")
@pytest.mark.parametrize("arguments", [["probes", "--json"], ["status", str(STORED)]])
def test_a_reader_that_has_gone_is_no_error(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "grpodyn", *arguments], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_a_process_that_calls_the_command_line_keeps_its_own_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["grpodyn", "probes", "--json"])
    before = signal.getsignal(signal.SIGPIPE)
    with pytest.raises(SystemExit):
        main()
    assert signal.getsignal(signal.SIGPIPE) is before


def test_commands_that_work_on_without_a_reader_exist() -> None:
    assert set(NAMES) >= WORKS_ON


def test_the_shell_can_complete_commands() -> None:
    environment = {**os.environ, "_GRPODYN_COMPLETE": "complete_bash", "COMP_WORDS": "grpodyn wat", "COMP_CWORD": "1"}
    program = Path(sys.executable).with_name("grpodyn")
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["watch"]
