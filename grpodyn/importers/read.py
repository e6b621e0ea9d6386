"""Tells which kind of log a file is, by its content, and reads it."""

from __future__ import annotations

import json
from pathlib import Path

from grpodyn.errors import UnreadableError
from grpodyn.importers import completions, console, json_log, solve_counts, table, tensorboard, wandb_run
from grpodyn.importers.log import Log
from grpodyn.trace.schema import MANIFEST

KINDS = (
    "trainer_state.json, JSON or JSONL rows, printed dicts, console lines of verl and OpenRLHF, CSV or copied tables, "
    "TensorBoard event files, offline runs of Weights & Biases, parquet of completions, CSV of solve counts"
)
_TRAINER_STATE = "trainer_state.json"
_LARGEST = 2 << 30


def read_log(path: Path, run: str | None = None) -> Log:
    """Return the log in a file, or in a folder that holds one.

    Args:
        path: the file or folder.
        run: which run to take from a table that holds several.

    Raises:
        UnreadableError: it cannot be read, or is none of the known kinds.
        UsageError: it holds several runs, and `run` does not choose one.
    """
    try:
        log = _read_folder(path) if path.is_dir() else _read_file(path, run)
    except FileNotFoundError:
        raise UnreadableError(f"{path} does not exist; give a log file, or a folder that holds one") from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}") from error
    if log is None and (path / MANIFEST).is_file():
        raise UnreadableError(f"{path} is a run already, expected somebody else's log; commands take it as it is")
    if log is None:
        raise UnreadableError(f"{path} is no log that is known here; known are: {KINDS}")
    return log


def _read_folder(path: Path) -> Log | None:
    state = path / _TRAINER_STATE
    if not state.exists():
        # A trainer's output folder: the newest checkpoint holds the whole history.
        found = sorted(path.glob(f"checkpoint-*/{_TRAINER_STATE}"), key=lambda p: _number(p.parent.name))
        state = found[-1] if found else state
    if state.exists():
        return _read_file(state, None)
    if events := tensorboard.event_files(path):
        return tensorboard.read(events)
    if (offline := wandb_run.find(path)) is not None:
        return wandb_run.read(offline)
    if parquet := sorted(path.glob("*.parquet")):
        return completions.read(parquet)
    return None


def _number(name: str) -> int:
    digits = name.rsplit("-", 1)[-1]
    return int(digits) if digits.isdecimal() else -1


def _read_file(path: Path, run: str | None) -> Log | None:
    if path.stat().st_size > _LARGEST:
        raise UnreadableError(f"{path} has {path.stat().st_size / 2**30:.1f} GiB, more than a log has; cut it first")
    if tensorboard.is_event_file(path):
        return tensorboard.read([path])
    if path.suffix == ".wandb":
        return wandb_run.read(path)
    if path.suffix == ".parquet":
        return completions.read([path])
    text = path.read_bytes().decode("utf-8-sig", "replace")
    return from_text(text, run)


def from_text(text: str, run: str | None = None) -> Log | None:
    """Return the log that a text is, or None if it is none of the known kinds.

    Raises:
        UsageError: it is a table of several runs, and `run` does not choose one.
    """
    if not text.strip():
        return None
    try:
        # Python's reader takes the bare NaN that transformers writes.
        return json_log.from_document(json.loads(text))
    except (ValueError, RecursionError):
        pass
    return solve_counts.from_text(text) or table.from_text(text, run) or console.from_text(text)
