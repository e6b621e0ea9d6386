"""The index of a sweep, `sweep.json`: which runs there are, and what has become of each. Replaced whole, always.

A folder that holds one stands for its runs wherever commands take several.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from grpodyn.errors import SchemaError, UnreadableError
from grpodyn.trace import strict_json
from grpodyn.trace.schema import MANIFEST

INDEX = "sweep.json"
VERSION = 1

State = Literal["pending", "running", "done", "interrupted", "failed"]
"""`running` in an index that nobody writes to any more is a run whose sweep was killed."""
STATES: tuple[State, ...] = ("pending", "running", "done", "interrupted", "failed")


@dataclass(frozen=True)
class Entry:
    """One run of a sweep."""

    name: str
    """Of its directory, beside the index."""
    arm: str
    seed: int
    state: State = "pending"
    error: str | None = None
    """Why it has failed."""
    starts: int = 0
    seconds: float = 0.0
    """Of wall time, over all starts."""


@dataclass(frozen=True)
class Index:
    """All runs of a sweep, and what the study was."""

    name: str
    question: str
    study: dict[str, Any] = field(repr=False)
    """As it was carried out, options of the command line included."""
    settings: tuple[str, ...] = ()
    """`--set` of the command line."""
    entries: tuple[Entry, ...] = ()

    def entry(self, name: str) -> Entry:
        """Return the entry of a run.

        Raises:
            KeyError: there is none.
        """
        return next(entry for entry in self.entries if entry.name == name)

    def with_entry(self, changed: Entry) -> Index:
        """Return the index with one entry replaced."""
        return replace(self, entries=tuple(changed if entry.name == changed.name else entry for entry in self.entries))

    def write(self, folder: Path) -> None:
        """Replace `sweep.json`.

        Raises:
            OSError: the disk is full or gone.
        """
        content = {"sweep_version": VERSION, **asdict(self)}
        strict_json.replace_file(folder / INDEX, strict_json.dumps(content, indent=1).encode() + b"\n")


def is_sweep(folder: Path) -> bool:
    """Return whether a folder holds a sweep."""
    return (folder / INDEX).is_file()


def read_index(folder: Path) -> Index:
    """Return the index of the sweep in a folder.

    Raises:
        UnreadableError: there is none, or it cannot be read.
        SchemaError: it is of another version, or no index.
    """
    path = folder / INDEX
    try:
        content = strict_json.read(path)
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SchemaError(f"{path} is not JSON ({error}); delete it, and the same sweep makes it anew") from error
    version = content.get("sweep_version") if isinstance(content, dict) else None
    if version != VERSION:
        raise SchemaError(f"{path} has version {version!r}; this grpodyn reads version {VERSION}")
    try:
        return Index(
            name=str(content["name"]),
            question=str(content["question"]),
            study=dict(content["study"]),
            settings=tuple(map(str, content["settings"])),
            entries=tuple(_entry(entry) for entry in content["entries"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"{path} is no index of a sweep ({type(error).__name__}: {error})") from error


def _entry(value: dict[str, Any]) -> Entry:
    entry = Entry(**{spec.name: value[spec.name] for spec in fields(Entry)})
    # A path out of the folder would let an index name any directory of the machine.
    if Path(entry.name).name != entry.name or entry.state not in STATES:
        raise ValueError(f"an entry is called {entry.name!r} and is {entry.state!r}")
    return entry


def recorded_runs(folder: Path) -> list[Path]:
    """Return the directories of a sweep's runs that hold a record, in the order of the index.

    Raises:
        UnreadableError, SchemaError: as `read_index`.
    """
    return [folder / entry.name for entry in read_index(folder).entries if (folder / entry.name / MANIFEST).is_file()]
