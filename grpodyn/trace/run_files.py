"""All files of one run directory, as the writer's thread works on them; nothing here is safe to share."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.errors import UnreadableError
from grpodyn.trace import strict_json
from grpodyn.trace.buffer import Array, GroupBuffer
from grpodyn.trace.commit import Commit
from grpodyn.trace.lock import WriterLock
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import AXIS_COORDS, EVENTS, FIXED_ARRAYS, GROUP_AXES, GROUPS, STORE, ArraySpec
from grpodyn.trace.store import read_labels, write_group

RESERVE = ".reserve"
RESERVE_BYTES = 64 * 1024
"""Kept free for the last words of a recorder whose disk is full."""


class RunFiles:
    """Groups, events, manifest and commit of one run."""

    def __init__(self, run_dir: Path, manifest: Manifest, lock: WriterLock, groups: dict[str, GroupBuffer]) -> None:
        self.run_dir = run_dir
        self.lock = lock
        self.groups = groups
        self._manifest = manifest
        self._manifest_changed = False
        self._segment = len(manifest.segments) - 1
        self._events: list[str] = []

    @classmethod
    def create(cls, run_dir: Path, manifest: Manifest, lock: WriterLock) -> RunFiles:
        """Lay out an empty run."""
        (run_dir / RESERVE).write_bytes(b"\0" * RESERVE_BYTES)
        write_group(run_dir / STORE, {"grpodyn_schema_version": manifest.schema_version})
        Commit().write(run_dir)
        manifest.write(run_dir)
        return cls(run_dir, manifest, lock, {})

    @classmethod
    def take_up(cls, run_dir: Path, manifest: Manifest, lock: WriterLock) -> RunFiles:
        """Go on with a run that a former writer left: cut to its commit, half-written files removed.

        Raises:
            SchemaError: `commit.json` is damaged.
            UnreadableError: an array is damaged.
        """
        sweep_partial_files(run_dir)
        groups = restore_groups(run_dir)
        (run_dir / RESERVE).write_bytes(b"\0" * RESERVE_BYTES)
        manifest.write(run_dir)
        return cls(run_dir, manifest, lock, groups)

    def declare(self, group: str, arrays: Mapping[str, ArraySpec]) -> None:
        """Add arrays to a group."""
        self._group(group).declare(arrays)

    def describe(self, group: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of a group."""
        self._group(group).describe(attributes)

    def label(self, group: str, labels: Mapping[str, Sequence[Any]]) -> None:
        """Set the coordinates of a group's named axis."""
        self._group(group).label_axis(labels)

    def append(self, group: str, step: int, columns: Mapping[str, Array]) -> None:
        """Add a row."""
        self._group(group).append(step, self._segment, columns)

    def amend(self, group: str, step: int, columns: Mapping[str, Array]) -> None:
        """Set more values of the last row, if it is of that step."""
        if not self._group(group).amend(step, self._segment, columns):
            self.note(event_line(step, "row not completed", f"it is not the last row of {group}: {', '.join(columns)}"))

    def append_metrics(self, group: str, step: int, numbers: Mapping[str, float], stamp: float) -> None:
        """Add a row of named numbers; a new name extends the axis."""
        buffer = self._group(group)
        names = buffer.axis_names
        known = set(names)
        new = [name for name in numbers if name not in known]
        if new:
            names = [*names, *new]
            buffer.label_axis({"metric": names})
        columns: dict[str, Array] = {
            "values": np.array([numbers.get(name, np.nan) for name in names], dtype=np.float64)
        }
        if "time" in FIXED_ARRAYS[group]:
            columns["time"] = np.asarray(stamp)
        buffer.append(step, self._segment, columns)

    def note(self, line: str) -> None:
        """Add a line to `events.jsonl`."""
        self._events.append(line)

    def note_dropped(self, count: int) -> None:
        """Write down that `count` rows or events were dropped."""
        self.note(event_line(-1, "rows dropped", f"{count} rows or events were dropped: the disk did not keep up"))

    def set_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest with the next flush."""
        self._manifest = manifest
        self._manifest_changed = True

    def beat(self) -> None:
        """Renew the lock's heartbeat."""
        self.lock.beat()

    def flush(self) -> None:
        """Write what changed, and `commit.json` last."""
        for group in self.groups.values():
            group.write()
        self._write_events()
        if self._manifest_changed:
            self._manifest.write(self.run_dir)
            self._manifest_changed = False
        self._commit().write(self.run_dir)

    def finish(self, manifest: Manifest) -> None:
        """Commit, cut the arrays to their exact lengths, and write the final manifest."""
        self._manifest_changed = False
        self.flush()
        for group in self.groups.values():
            group.trim()
        self._manifest = manifest
        manifest.write(self.run_dir)
        (self.run_dir / RESERVE).unlink(missing_ok=True)

    def give_up(self, reason: str) -> None:
        """Note why recording stops, in the space kept for it."""
        with contextlib.suppress(OSError):
            (self.run_dir / RESERVE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            sweep_partial_files(self.run_dir)
        with contextlib.suppress(OSError):
            self._events.append(event_line(-1, "recording stopped", reason))
            self._write_events()
        with contextlib.suppress(OSError):
            self._manifest = self._manifest.updated(status="failed", recorder={"stopped": reason})
            self._manifest.write(self.run_dir)

    def _commit(self) -> Commit:
        groups = self.groups.items()
        return Commit({name: group.rows for name, group in groups}, {name: dict(group.sizes) for name, group in groups})

    def _group(self, name: str) -> GroupBuffer:
        if name not in self.groups:
            self.groups[name] = GroupBuffer(self.run_dir / STORE, name)
        return self.groups[name]

    def _write_events(self) -> None:
        if not self._events:
            return
        path = self.run_dir / EVENTS
        # A killed process may have left half a line.
        torn = path.exists() and path.stat().st_size > 0 and not _ends_with_newline(path)
        with path.open("ab") as file:
            file.write((("\n" if torn else "") + "\n".join(self._events) + "\n").encode())
        self._events.clear()


def event_line(step: int, what: str, why: str, **fields: Any) -> str:
    """Return one line of `events.jsonl`, without the newline."""
    return strict_json.dumps({"step": int(step), "what": what, "why": why, "time": round(time.time(), 3), **fields})


def sweep_partial_files(run_dir: Path) -> int:
    """Delete half-written files that a killed writer left; return how many there were."""
    partial = [path for folder in (run_dir, run_dir / STORE) for path in _partial_files(folder, folder != run_dir)]
    for path in partial:
        path.unlink(missing_ok=True)
    return len(partial)


def _partial_files(folder: Path, deep: bool) -> list[Path]:
    return sorted(folder.rglob("*.partial") if deep else folder.glob("*.partial"))


def restore_groups(run_dir: Path) -> dict[str, GroupBuffer]:
    """Return the committed groups of a run, their arrays cut to the commit; deletes groups that were never committed.

    Raises:
        SchemaError: `commit.json` is damaged.
        UnreadableError: an array is damaged.
    """
    commit = Commit.read(run_dir) or Commit()
    store = run_dir / STORE
    groups: dict[str, GroupBuffer] = {}
    for name in GROUPS:
        if name not in commit.rows:
            # Created in a flush that was never committed: nothing in it counts.
            shutil.rmtree(store / name, ignore_errors=True)
            continue
        group = groups[name] = GroupBuffer(store, name)
        try:
            sizes = commit.axes.get(name, {})
            group.restore(commit.rows[name], sizes, _stored_labels(store / name, GROUP_AXES[name], sizes))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise UnreadableError(
                f"{run_dir}: group {name} is damaged ({error}); `grpodyn status {run_dir} --repair` mends what it can"
            ) from error
    return groups


def _stored_labels(directory: Path, dim: str, sizes: Mapping[str, int]) -> dict[str, list[Any]]:
    if not (directory / dim).is_dir():
        return {}
    size = sizes.get(dim, 0)
    # Traces of the first days lack the newest coordinates: they stay without, unless their tensors are declared again.
    stored = {coord: dtype for coord, dtype in AXIS_COORDS[dim].items() if (directory / coord).is_dir()}
    return {coord: read_labels(directory / coord, dtype, size) for coord, dtype in stored.items()}


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
