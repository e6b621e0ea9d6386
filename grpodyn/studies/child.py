"""Starts the process of one run, and says what became of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpodyn.errors import GrpodynError
from grpodyn.studies.index import State
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import MANIFEST

_TAIL = 8192
_OWN = "grpodyn: "
STOPPED_AT_ONCE = 130


@dataclass(frozen=True)
class Child:
    """What a process is started with; plain values, so that it can be sent to another machine."""

    name: str
    run_dir: Path
    config: Path
    """YAML of the whole run config."""
    log: Path
    """Where what it says goes."""


@dataclass(frozen=True)
class Outcome:
    """How a start of a run has ended."""

    state: State
    """`done`, `interrupted` or `failed`."""
    error: str | None = None
    seconds: float | None = None
    """Of training, where that is not the time since it was handed over."""


def start(child: Child, environment: Mapping[str, str], cores: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a run's process, which goes on with what the run's directory holds.

    It is in a process group of its own: a Ctrl-C in the terminal reaches the sweep alone, which then ends every run in
    order.

    Raises:
        OSError: the log cannot be written, or no process can be started.
    """
    resume = (child.run_dir / MANIFEST).is_file()
    if not resume and child.run_dir.exists():
        # A start that was killed before it recorded anything; `record` would take it for somebody's files.
        shutil.rmtree(child.run_dir)
    child.log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "grpodyn.studies.worker", str(os.getpid()), ",".join(map(str, cores))]
    command += ["record", str(child.config), "--run-dir", str(child.run_dir), *(["--resume"] if resume else [])]
    with child.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,
        )


def outcome(child: Child, code: int, interrupted: bool) -> Outcome:
    """Return what became of a run whose process has ended.

    Args:
        child: what was started.
        code: its exit code; negative for a signal.
        interrupted: whether it was asked to stop.
    """
    if code != 0:
        asked = interrupted or code == STOPPED_AT_ONCE
        return Outcome("interrupted") if asked else Outcome("failed", _reason(child, code))
    status = _status(child.run_dir)
    if status == "finished":
        return Outcome("done")
    if interrupted:
        return Outcome("interrupted")
    if status == "stopped_early":
        # Nobody asked: its own rule (`stop: {act: true}`) did, so this is its end.
        return Outcome("done")
    return Outcome("failed", f"it ended without a record of its own (see {child.log})")


def _reason(child: Child, code: int) -> str:
    if code < 0:
        return f"killed by signal {-code}; was memory short? Try fewer --workers"
    return last_words(child.log) or f"exit code {code} (see {child.log})"


def _status(run_dir: Path) -> str | None:
    try:
        return Manifest.read(run_dir).status
    except (GrpodynError, OSError):
        return None


def last_words(log: Path) -> str | None:
    """Return the last thing that a run's process complained about, or its last line; None if there is none."""
    lines = _tail(log)
    own = [line for line in lines if line.startswith(_OWN)]
    found = (own or lines)[-1:]
    return found[0].removeprefix(_OWN) if found else None


def last_line(log: Path) -> str:
    """Return the last line of a log, an empty string if there is none."""
    lines = _tail(log)
    return lines[-1] if lines else ""


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
