"""The one writer of a run directory.

Every method returns at once: what it is given is copied into a bounded queue, and a thread that owns all files does the
rest. Once writing has failed (a full disk), `failed` says why and every method does nothing: recording must not end
training.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from grpodyn.errors import DirectoryInUseError, UnknownNameError, UnreadableError, UsageError
from grpodyn.trace import strict_json
from grpodyn.trace.buffer import Array, GroupBuffer
from grpodyn.trace.commit import Commit
from grpodyn.trace.lock import HEARTBEAT_SECONDS, WriterLock
from grpodyn.trace.manifest import Manifest, RunStatus, utc_now
from grpodyn.trace.schema import (
    AXIS_COORDS,
    EVENTS,
    FIXED_ARRAYS,
    GROUP_AXES,
    GROUPS,
    LOCK,
    STORE,
    ArraySpec,
    TensorInfo,
)
from grpodyn.trace.store import read_labels, write_group

QUEUE_BYTES = 64 * 1024 * 1024
"""Rows waiting for the disk at most; beyond it `add_row` waits, and then drops rows and says so."""
PATIENCE_SECONDS = 30.0
FLUSH_DELAY_SECONDS = 0.8
FLUSH_COST_FACTOR = 50.0
_RESERVE = ".reserve"
_RESERVE_BYTES = 64 * 1024

_OPEN: weakref.WeakSet[TraceWriter] = weakref.WeakSet()


@dataclass(frozen=True)
class _Job:
    run: Callable[[], None]
    size: int = 0


class TraceWriter:
    """Writes one run; made by `create` or `resume`, ended by `close`."""

    def __init__(self, run_dir: Path, manifest: Manifest, lock: WriterLock, groups: Mapping[str, GroupBuffer]) -> None:
        self.run_dir = run_dir
        self.failed: str | None = None
        """Why writing has stopped; None while it goes on."""
        self.cpu_seconds = 0.0
        """CPU seconds the writer's thread has used."""
        self.manifest = manifest
        self.segment = len(manifest.segments) - 1
        self._lock = lock
        self._groups = dict(groups)
        self._specs: dict[str, dict[str, ArraySpec]] = {name: dict(FIXED_ARRAYS.get(name, {})) for name in GROUPS}
        for name, group in groups.items():
            self._specs[name].update(group.specs)
        self._labels = {GROUP_AXES[name]: list(group.axis_names) for name, group in groups.items()}

        self._condition = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._queued_bytes = 0
        self._patience = PATIENCE_SECONDS
        self._dropped = 0
        self._closed = False

        # Owned by the thread.
        self._events: list[str] = []
        self._manifest_due = False
        self._dirty_since: float | None = None
        self._earliest_flush = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="grpodyn-writer", daemon=True)
        self._thread.start()
        _OPEN.add(self)

    @classmethod
    def create(cls, run_dir: Path, manifest: Manifest) -> TraceWriter:
        """Start a new run in `run_dir`, which must be empty or absent.

        Raises:
            DirectoryInUseError: the directory holds anything, or another writer has it.
        """
        run_dir = Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        # An existing lock file is looked at through `acquire`, which can name the writer that has it.
        _refuse_unless_empty(run_dir)
        lock = WriterLock.acquire(run_dir)
        try:
            _refuse_unless_empty(run_dir)
            segment = {"index": 0, "start_step": 0, "started_at": utc_now()}
            manifest = manifest.updated(status="running", segments=[segment])
            (run_dir / _RESERVE).write_bytes(b"\0" * _RESERVE_BYTES)
            write_group(run_dir / STORE, {"grpodyn_schema_version": manifest.schema_version})
            Commit().write(run_dir)
            manifest.write(run_dir)
        except BaseException:
            lock.release()
            raise
        return cls(run_dir, manifest, lock, {})

    @classmethod
    def resume(cls, run_dir: Path, start_step: int, **segment_fields: Any) -> TraceWriter:
        """Go on writing a run from `start_step` on, as a new segment; rows that were never committed are cut off.

        Raises:
            NotARunError, SchemaError: `run_dir` holds no run of this schema.
            DirectoryInUseError: another writer has it.
            UnreadableError: an array is damaged and needs `grpodyn status --repair` first.
        """
        run_dir = Path(run_dir)
        Manifest.read(run_dir)
        lock = WriterLock.acquire(run_dir)
        try:
            manifest = Manifest.read(run_dir)
            sweep_partial_files(run_dir)
            groups = _restore_groups(run_dir)
            segment = {
                "index": len(manifest.segments),
                "start_step": int(start_step),
                "started_at": utc_now(),
                **segment_fields,
            }
            manifest = manifest.updated(status="running", segments=[*manifest.segments, segment])
            (run_dir / _RESERVE).write_bytes(b"\0" * _RESERVE_BYTES)
            manifest.write(run_dir)
        except BaseException:
            lock.release()
            raise
        return cls(run_dir, manifest, lock, groups)

    def declare_tensors(self, tensors: Sequence[TensorInfo]) -> None:
        """Set the `tensor` axis of `tensors` and `spectra`; a later call (or a resume) may extend it.

        Raises:
            UsageError: names occur twice, or differ from those the run already has.
        """
        self._extend_axis("tensor", [tensor.name for tensor in tensors])
        labels = {
            name: [getattr(tensor, name) for tensor in tensors] for name in AXIS_COORDS["tensor"] if name != "tensor"
        }
        labels["tensor"] = [tensor.name for tensor in tensors]
        for group in ("tensors", "spectra"):
            self._put(lambda group=group: self._group(group).label_axis(labels))  # type: ignore[misc]

    def declare_layers(self, layers: Sequence[int], stacks: Sequence[str]) -> None:
        """Set the `layer` axis of `layers`: indices, and the stack that each belongs to.

        Raises:
            UsageError: layers differ from those the run already has.
        """
        labels = {"layer": [int(layer) for layer in layers], "stack": list(stacks)}
        self._extend_axis("layer", labels["layer"])
        self._put(lambda: self._group("layers").label_axis(labels))

    def declare_reward_functions(self, names: Sequence[str]) -> None:
        """Name the `reward_function` axis of `rollouts`."""
        self._extend_axis("reward_function", list(names))
        self._put(lambda: self._group("rollouts").label_axis({"reward_function": list(names)}))

    def declare_arrays(self, group: str, arrays: Mapping[str, ArraySpec]) -> None:
        """Declare the arrays of `group` that rows will hold.

        Raises:
            UnknownNameError: no such group.
            UsageError: an array's first dimension is not `row`.
        """
        specs = self._specs_of(group)
        for name, spec in arrays.items():
            if spec.dims[:1] != ("row",):
                raise UsageError(f"array {group}/{name} has dims {spec.dims}; the first must be 'row'")
        specs.update(arrays)
        declared = dict(arrays)
        self._put(lambda: self._group(group).declare(declared))

    def add_row(
        self, group: str, step: int, values: Mapping[str, ArrayLike | float], time: float | None = None
    ) -> None:
        """Add a row to `group`.

        Args:
            group: one of the schema's groups.
            step: the trainer's `global_step` after the update.
            values: one array (without the row dimension) per array name; in `metrics` and `evaluations` one number per
                metric name, None for missing.
            time: of `metrics`: seconds since 1970; now if None.

        Raises:
            UnknownNameError: no such group or array.
            UsageError: a value's shape does not fit its array.
        """
        if self.failed is not None or self._closed:
            return
        step = int(step)
        if GROUP_AXES.get(group) == "metric":
            numbers = {str(name): np.nan if v is None else float(v) for name, v in values.items()}  # type: ignore[arg-type]
            stamp = _now() if time is None else float(time)
            self._put(lambda: self._append_metrics(group, step, numbers, stamp), 64 * (1 + len(numbers)))
            return
        specs = self._specs_of(group)
        columns = {name: self._column(group, name, specs, value) for name, value in values.items()}
        size = 512 + sum(column.nbytes for column in columns.values())
        self._put(lambda: self._append(group, step, columns), size)

    def event(self, step: int, what: str, why: str, **fields: Any) -> None:
        """Note what could not be measured or went wrong, as one line of `events.jsonl`."""
        line = strict_json.dumps({"step": int(step), "what": what, "why": why, "time": _now(), **fields})
        self._put(lambda: self._note(line), len(line))

    def update_manifest(self, **fields: Any) -> None:
        """Replace fields of `run.json`; a mapping is merged into the mapping that is there.

        Raises:
            UnknownNameError, SchemaError: not a field of a manifest, or a value of the wrong type.
        """
        if self.failed is None and not self._closed:
            with self._condition:
                self.manifest = self.manifest.updated(**fields)
            self._put(self._note_manifest)

    def flush(self) -> None:
        """Return when everything given so far is committed, or writing has failed."""
        done = threading.Event()

        def run() -> None:
            self._flush()
            done.set()

        if self._put(run):
            while not done.wait(0.1) and self._thread.is_alive():
                pass

    def close(self, status: RunStatus) -> None:
        """Commit everything, cut the arrays to their exact lengths, set the run's status and give up the lock."""
        self._end(status)

    def _end(self, status: RunStatus | None) -> None:
        with self._condition:
            if self._closed:
                return
            if self.failed is None and status is not None:
                self.manifest = self.manifest.updated(status=status)
        self._put(lambda: self._finish(trim=status is not None))
        self._closed = True
        _OPEN.discard(self)
        self._thread.join()
        self._lock.release()

    # Called by the training threads.

    def _put(self, run: Callable[[], None], size: int = 0) -> bool:
        with self._condition:
            if self.failed is not None or self._closed:
                return False
            fits = self._condition.wait_for(
                lambda: self.failed is not None or not self._queued_bytes or self._queued_bytes + size <= QUEUE_BYTES,
                self._patience if size else None,
            )
            if self.failed is not None:
                return False
            if not fits:
                # The disk hangs. Waiting this long for every further row would be worse than losing them.
                self._patience = 0.0
                self._dropped += 1
                return False
            self._patience = PATIENCE_SECONDS
            self._jobs.append(_Job(run, size))
            self._queued_bytes += size
            self._condition.notify_all()
            return True

    def _specs_of(self, group: str) -> dict[str, ArraySpec]:
        if group not in self._specs:
            raise UnknownNameError.among("group", group, GROUPS)
        return self._specs[group]

    def _column(self, group: str, name: str, specs: Mapping[str, ArraySpec], value: Any) -> Array:
        if name not in specs:
            raise UnknownNameError.among(f"array of {group}", name, specs)
        spec = specs[name]
        column = np.array(value, dtype=spec.dtype)
        dims = spec.dims[1:]
        if column.ndim != len(dims):
            raise UsageError(f"{group}/{name}: a row has dims {dims}, the value given has shape {column.shape}")
        for dim, size in zip(dims, column.shape, strict=True):
            expected = len(self._labels.get(dim, ()))
            if dim in AXIS_COORDS and size != expected:
                raise UsageError(f"{group}/{name}: {expected} {dim}s are declared, the value given has {size}")
        return column

    def _extend_axis(self, dim: str, names: list[Any]) -> None:
        had = self._labels.get(dim, [])
        if len(set(names)) != len(names) and dim != "layer":
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{dim} {twice!r} is declared twice; names on an axis are unique")
        if names[: len(had)] != had:
            differing = next((a for a, b in zip(had, names, strict=False) if a != b), had[-1])
            raise UsageError(
                f"the run's {dim} axis has {len(had)} entries and the new one differs from {differing!r} on; an axis may only "
                f"be extended: record into another directory"
            )
        self._labels[dim] = names

    # Run by the writer's thread, which alone touches the files.

    def _work(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except OSError as error:
            self._give_up(f"{type(error).__name__}: {error}")
        finally:
            with self._condition:
                if not self._stopping and self.failed is None:
                    self.failed = "the writer's thread died"
                self._jobs.clear()
                self._queued_bytes = 0
                self._condition.notify_all()

    def _turn(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: bool(self._jobs), self._seconds_to_wait())
            jobs = list(self._jobs)
            self._jobs.clear()
            dropped, self._dropped = self._dropped, 0
        for job in jobs:
            job.run()
            with self._condition:
                self._queued_bytes -= job.size
                self._condition.notify_all()
        if dropped:
            why = f"{dropped} rows or events were dropped: the disk did not keep up"
            self._note(strict_json.dumps({"step": -1, "what": "rows dropped", "why": why, "time": _now()}))
        if self._dirty_since is not None and time.monotonic() >= self._due():
            self._flush()
        self._lock.beat()

    def _due(self) -> float:
        return max((self._dirty_since or 0.0) + FLUSH_DELAY_SECONDS, self._earliest_flush)

    def _seconds_to_wait(self) -> float:
        if self._dirty_since is None:
            return HEARTBEAT_SECONDS
        return min(HEARTBEAT_SECONDS, max(0.0, self._due() - time.monotonic()))

    def _group(self, name: str) -> GroupBuffer:
        if name not in self._groups:
            group = self._groups[name] = GroupBuffer(self.run_dir / STORE, name)
            group.declare(self._specs[name])
        self._mark_dirty()
        return self._groups[name]

    def _append(self, group: str, step: int, columns: Mapping[str, Array]) -> None:
        self._group(group).append(step, self.segment, columns)

    def _append_metrics(self, group: str, step: int, numbers: Mapping[str, float], stamp: float) -> None:
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
        buffer.append(step, self.segment, columns)

    def _note(self, line: str) -> None:
        self._events.append(line)
        self._mark_dirty()

    def _note_manifest(self) -> None:
        self._manifest_due = True
        self._mark_dirty()

    def _mark_dirty(self) -> None:
        if self._dirty_since is None:
            self._dirty_since = time.monotonic()

    def _flush(self) -> None:
        started = time.monotonic()
        for group in self._groups.values():
            group.write()
        self._write_events()
        if self._manifest_due:
            self.manifest.write(self.run_dir)
            self._manifest_due = False
        Commit(
            {name: group.rows for name, group in self._groups.items()},
            {name: dict(group.sizes) for name, group in self._groups.items()},
        ).write(self.run_dir)
        self._dirty_since = None
        ended = time.monotonic()
        self._earliest_flush = ended + FLUSH_COST_FACTOR * (ended - started)
        self.cpu_seconds = time.thread_time()

    def _finish(self, trim: bool) -> None:
        self._flush()
        if trim:
            for group in self._groups.values():
                group.trim()
            self.manifest.write(self.run_dir)
            (self.run_dir / _RESERVE).unlink(missing_ok=True)
        self._stopping = True

    def _write_events(self) -> None:
        if not self._events:
            return
        path = self.run_dir / EVENTS
        with path.open("ab") as file:
            # A killed process may have left half a line.
            torn = file.tell() > 0 and not _ends_with_newline(path)
            file.write((("\n" if torn else "") + "\n".join(self._events) + "\n").encode())
        self._events.clear()

    def _give_up(self, reason: str) -> None:
        self.failed = reason
        with contextlib.suppress(OSError):
            (self.run_dir / _RESERVE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            line = {"step": -1, "what": "recording stopped", "why": reason, "time": _now()}
            self._events.append(strict_json.dumps(line))
            self._write_events()
        with contextlib.suppress(OSError):
            self.manifest = self.manifest.updated(status="failed", recorder={"stopped": reason})
            self.manifest.write(self.run_dir)

    def _disown(self) -> None:
        # The thread did not survive the fork and its condition may be held for ever.
        self._condition = threading.Condition()
        self._closed = True
        self.failed = "this process is a fork of the one that records"
        self._lock.abandon()


def sweep_partial_files(run_dir: Path) -> int:
    """Delete half-written files that a killed writer left; return how many there were."""
    partial = list(run_dir.rglob("*.partial"))
    for path in partial:
        path.unlink(missing_ok=True)
    return len(partial)


def _restore_groups(run_dir: Path) -> dict[str, GroupBuffer]:
    commit = Commit.read(run_dir) or Commit()
    groups: dict[str, GroupBuffer] = {}
    store = run_dir / STORE
    for name in GROUPS:
        if name not in commit.rows:
            # Created in a flush that was never committed: nothing in it counts.
            shutil.rmtree(store / name, ignore_errors=True)
            continue
        sizes = commit.axes.get(name, {})
        dim = GROUP_AXES[name]
        group = GroupBuffer(store, name)
        try:
            labels = {}
            if (store / name / dim).is_dir():
                coords = AXIS_COORDS[dim].items()
                labels = {coord: read_labels(store / name / coord, dtype, sizes.get(dim, 0)) for coord, dtype in coords}
            group.restore(commit.rows[name], sizes, labels)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise UnreadableError(
                f"{run_dir}: group {name} is damaged ({error}); `grpodyn status {run_dir} --repair` mends what can be mended"
            ) from error
        groups[name] = group
    return groups


def _refuse_unless_empty(run_dir: Path) -> None:
    held = sorted(entry.name for entry in run_dir.iterdir() if entry.name != LOCK)
    if held:
        raise DirectoryInUseError(
            f"{run_dir} is not empty (it holds {', '.join(held[:3])}{' …' if len(held) > 3 else ''}); resume the run that is "
            f"there, or record into another directory"
        )


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _now() -> float:
    return round(time.time(), 3)


def _flush_at_exit() -> None:
    for writer in list(_OPEN):
        writer._end(None)


def _disown_in_child() -> None:
    for writer in list(_OPEN):
        writer._disown()


atexit.register(_flush_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_in_child)
