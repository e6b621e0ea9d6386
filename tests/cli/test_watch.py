"""`grpodyn watch` as a person at a terminal of 80 columns and 24 lines meets it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.cli.watch_view import LEAST_HEIGHT, frame
from grpodyn.diagnosis.rule import rules
from grpodyn.watching import Follower
from tests.watching.conftest import LiveRun

STORED = Path(__file__).parents[1] / "data/trace_v1"
ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"


@pytest.fixture
def live(tmp_path: Path):
    run = LiveRun(tmp_path / "grün run")
    run.steps(1, 30, **{"completions/clipped_ratio": 0.9})
    yield run
    run.writer.close("finished")


def drawn(run: Path, width: int, height: int, plain: bool = False) -> list[str]:
    snapshot = Follower(run).look()
    assert snapshot is not None
    file = io.StringIO()
    Console(file=file, width=width, height=height).print(frame(snapshot, width, height, plain=plain, hint="q quits"))
    return file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, LEAST_HEIGHT), (132, 50), (40, 24)])
def test_a_frame_fits_the_terminal(live: LiveRun, width: int, height: int) -> None:
    lines = drawn(live.path, width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert lines[-1].endswith("q quits")


def test_a_frame_of_24_lines_shows_everything(live: LiveRun) -> None:
    text = "\n".join(drawn(live.path, 80, 24))
    for part in (
        "running",
        "step 30 of 100",
        "0:02:20 left",
        "reward 0.125",
        "groups of 4",
        rules()["truncation"].title,
        "recorder  0.30 CPU s",
    ):
        assert part in text
    assert "model.layers.1.up_proj" in text


def test_a_terminal_without_braille_gets_plain_characters(live: LiveRun) -> None:
    assert all(line.isascii() for line in drawn(live.path, 80, 24, plain=True)[1:])


def test_a_reward_that_stands_still_and_weights_that_do_too(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "run", moves=False)
    run.steps(1, 30, right=0)
    text = "\n".join(drawn(run.path, 80, 24))
    run.writer.close("finished")
    assert "nothing moves" in text
    assert " 0.05 │" in text  # a range around 0, not of rounding errors
    assert "e-" not in text


def test_once_and_json_print_what_programs_read() -> None:
    shown = CliRunner().invoke(build(), ["watch", str(STORED), "--once"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.output
    content = json.loads(CliRunner().invoke(build(), ["watch", str(STORED), "--json"]).output)
    assert content["status"] == "finished"
    assert {"step", "fit", "findings", "movers", "groups", "recorder_seconds"} <= set(content)


class Terminal:
    """A pseudo-terminal of 80 × 24 with a command in it."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "grpodyn", *arguments]
        # A session of its own whose terminal this is, so that Ctrl-C reaches it.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        self.seen = b""

    def wait_for(self, *words: bytes, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not all(word in self.seen for word in words):
            assert time.monotonic() < end, self.seen[-3000:]
            ready, _, _ = select.select([self.ours], [], [], 0.2)
            if ready:
                self.seen += os.read(self.ours, 65536)

    def end(self) -> int:
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end
            if select.select([self.ours], [], [], 0.2)[0]:
                self.seen += os.read(self.ours, 65536)
        while select.select([self.ours], [], [], 0.2)[0]:
            self.seen += os.read(self.ours, 65536)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="setsid --ctty is of Linux")
@pytest.mark.parametrize("leave", ["q", "ctrl-c", "terminate"])
def test_it_follows_and_gives_the_terminal_back(live: LiveRun, leave: str) -> None:
    terminal = Terminal("watch", str(live.path), "--every", "0.2")
    try:
        terminal.wait_for(ALTERNATE, b"step 30 of 100", b"q quits")
        live.steps(31, 33)
        terminal.wait_for(b"step 33 of 100")
        if leave == "terminate":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            os.write(terminal.ours, b"q" if leave == "q" else b"\x03")
        code = terminal.end()
        assert code == (128 + signal.SIGTERM if leave == "terminate" else 0)
        assert terminal.seen.rindex(NORMAL) > terminal.seen.rindex(b"step 33")
        assert terminal.seen.rindex(SHOW_CURSOR) > terminal.seen.rindex(b"step 33")
        assert b"Traceback" not in terminal.seen
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()
