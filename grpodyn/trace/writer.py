"""The one writer of a run directory.

Every method returns at once: what it is given is copied into a bounded queue, and a thread that owns all files does the
rest. Once writing has failed (a full disk), `failed` says why and every method does nothing: recording must not end
training.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time as clock
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from grpodyn.errors import DirectoryInUseError, UnknownNameError, UsageError
from grpodyn.trace import strict_json
from grpodyn.trace.background import Background
from grpodyn.trace.buffer import Array
from grpodyn.trace.lock import WriterLock
from grpodyn.trace.manifest import Manifest, RunStatus, utc_now
from grpodyn.trace.run_files import RunFiles, event_line
from grpodyn.trace.schema import AXIS_COORDS, FIXED_ARRAYS, GROUP_AXES, GROUPS, LOCK, ArraySpec, TensorInfo

FLUSH_TIMEOUT_SECONDS = 60.0
CLOSE_TIMEOUT_SECONDS = 300.0

_OPEN: weakref.WeakSet[TraceWriter] = weakref.WeakSet()


class TraceWriter:
    """Writes one run; made by `create` or `resume`, ended by `close`."""

    def __init__(self, files: RunFiles, manifest: Manifest) -> None:
        self.run_dir = files.run_dir
        self.manifest = manifest
        self._files = files
        self._manifest_lock = threading.Lock()
        self._specs: dict[str, dict[str, ArraySpec]] = {name: dict(FIXED_ARRAYS.get(name, {})) for name in GROUPS}
        self._labels: dict[str, list[Any]] = {}
        for name, group in files.groups.items():
            self._specs[name].update(group.specs)
            self._labels[GROUP_AXES[name]] = list(group.axis_names)
        self._background = Background(files)
        self._closed = False
        self.observer: Callable[[str, Mapping[str, Any]], None] | None = None
        """Is shown every row of arrays, as (group, values), on the thread that adds it; must not raise or change it."""
        _OPEN.add(self)

    @classmethod
    def create(cls, run_dir: Path, manifest: Manifest) -> TraceWriter:
        """Start a new run in `run_dir`, which must be empty or absent.

        Raises:
            DirectoryInUseError: the directory holds anything, is a file, or another writer has it.
            UsageError: it cannot be made.
        """
        # The training script may change its working directory.
        run_dir = Path(os.path.abspath(run_dir))
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise DirectoryInUseError(f"{run_dir} is a file, expected an absent or empty directory") from None
        except OSError as error:
            raise UsageError(f"{run_dir} cannot be made: {error.strerror}; give a directory that can") from error
        if (run_dir / LOCK).exists():
            # Names the writer, if one is there.
            WriterLock.acquire(run_dir).release()
        _refuse_unless_empty(run_dir)
        lock = WriterLock.acquire(run_dir)
        try:
            _refuse_unless_empty(run_dir)
            segment = {"index": 0, "start_step": 0, "started_at": utc_now()}
            manifest = manifest.updated(status="running", segments=[segment])
            return cls(RunFiles.create(run_dir, manifest, lock), manifest)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(cls, run_dir: Path, start_step: int, **segment_fields: Any) -> TraceWriter:
        """Go on writing a run from `start_step` on, as a new segment; rows that were never committed are cut off.

        Raises:
            NotARunError, SchemaError: `run_dir` holds no run of this schema.
            DirectoryInUseError: another writer has it.
            UnreadableError: an array is damaged and needs `grpodyn status --repair` first.
        """
        run_dir = Path(os.path.abspath(run_dir))
        Manifest.read(run_dir)  # Before the lock, which would leave its file in a folder that is no run.
        lock = WriterLock.acquire(run_dir)
        try:
            manifest = Manifest.read(run_dir)
            segment = {"index": len(manifest.segments), "start_step": int(start_step), "started_at": utc_now()}
            segments = [*manifest.segments, {**segment, **segment_fields}]
            manifest = manifest.updated(status="running", segments=segments)
            return cls(RunFiles.take_up(run_dir, manifest, lock), manifest)
        except BaseException:
            lock.release()
            raise

    @property
    def failed(self) -> str | None:
        """Why writing has stopped; None while it goes on."""
        return self._background.failed

    @property
    def segment(self) -> int:
        """Index of the segment that is being written."""
        return len(self.manifest.segments) - 1

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that the writer's thread has used."""
        return self._background.cpu_seconds

    def declare_tensors(self, tensors: Sequence[TensorInfo]) -> None:
        """Set the `tensor` axis of `tensors` and `spectra`; a later call (or a resume) may extend it.

        Raises:
            UsageError: names occur twice, or differ from those the run already has.
        """
        names = [tensor.name for tensor in tensors]
        self._extend_axis("tensor", names)
        labels: dict[str, list[Any]] = {
            coord: names if coord == "tensor" else [getattr(tensor, coord) for tensor in tensors]
            for coord in AXIS_COORDS["tensor"]
        }
        self._background.put(lambda: self._files.label("tensors", labels))
        self._background.put(lambda: self._files.label("spectra", labels))

    def declare_layers(self, layers: Sequence[int], stacks: Sequence[str]) -> None:
        """Set the `layer` axis of `layers`: indices, and the stack that each belongs to.

        Raises:
            UsageError: layers differ from those the run already has.
        """
        indices, names = [int(layer) for layer in layers], [str(stack) for stack in stacks]
        if len(indices) != len(names):
            raise UsageError(f"{len(indices)} layers but {len(names)} stacks are given; give one stack per layer")
        self._extend_axis("layer", indices)
        self._background.put(lambda: self._files.label("layers", {"layer": indices, "stack": names}))

    def describe(self, group: str, **attributes: Any) -> None:
        """Set attributes of a group, such as how its rows were taken.

        Raises:
            UnknownNameError: no such group.
        """
        self._specs_of(group)
        self._background.put(lambda: self._files.describe(group, attributes))

    def declare_reward_functions(self, names: Sequence[str]) -> None:
        """Name the `reward_function` axis of `rollouts`; undeclared, it is numbered.

        Raises:
            UsageError: names occur twice, or differ from those the run already has.
        """
        functions = list(names)
        self._extend_axis("reward_function", functions)
        self._background.put(lambda: self._files.label("rollouts", {"reward_function": functions}))

    def declare_arrays(self, group: str, arrays: Mapping[str, ArraySpec]) -> None:
        """Declare the arrays of `group` that rows will hold; each appears in the store with its first value.

        Raises:
            UnknownNameError: no such group.
            UsageError: an array's first dimension is not `row`, or the run has that array with other dimensions.
        """
        specs = self._specs_of(group)
        for name, spec in arrays.items():
            if spec.dims[:1] != ("row",):
                raise UsageError(f"array {group}/{name} has dims {spec.dims}; the first must be 'row'")
            had = specs.get(name, spec)
            if (had.dims, had.dtype) != (spec.dims, spec.dtype):
                raise UsageError(
                    f"array {group}/{name} has dims {had.dims} of {had.dtype}, not {spec.dims} of {spec.dtype}"
                )
        specs.update(arrays)
        declared = dict(arrays)
        self._background.put(lambda: self._files.declare(group, declared))

    def add_row(
        self, group: str, step: int, values: Mapping[str, ArrayLike | float | None], time: float | None = None
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
        if not self._background.accepts():
            return
        specs = self._specs_of(group)
        step = int(step)
        if GROUP_AXES[group] == "metric":
            numbers = {strict_json.encodable(str(name)): _number(v) for name, v in values.items()}
            stamp = clock.time() if time is None else float(time)
            size = 256 + 128 * len(numbers)
            self._background.put(lambda: self._files.append_metrics(group, step, numbers, stamp), size)
            return
        columns = {name: self._column(group, name, specs, value) for name, value in values.items()}
        self._background.put(lambda: self._files.append(group, step, columns), _size(columns))
        if self.observer is not None:
            self.observer(group, columns)

    def amend_row(self, group: str, step: int, values: Mapping[str, ArrayLike | float | None]) -> None:
        """Set more values of the last row of a group, which stays whole and committed meanwhile.

        Args:
            group: one of the schema's groups, of arrays by row.
            step: the row's step.
            values: one array (without the row dimension) per array name.

        Raises:
            UnknownNameError: no such group or array.
            UsageError: a value's shape does not fit its array.
        """
        if not self._background.accepts():
            return
        specs = self._specs_of(group)
        columns = {name: self._column(group, name, specs, value) for name, value in values.items()}
        self._background.put(lambda: self._files.amend(group, int(step), columns), _size(columns))
        if self.observer is not None:
            self.observer(group, columns)

    def event(self, step: int, what: str, why: str, **fields: Any) -> None:
        """Note what could not be measured or went wrong, as one line of `events.jsonl`."""
        line = event_line(step, what, why, **fields)
        self._background.put(lambda: self._files.note(line), len(line))

    def update_manifest(self, **fields: Any) -> None:
        """Replace fields of `run.json`; a mapping is merged into the mapping that is there.

        Raises:
            UnknownNameError, SchemaError: not a field of a manifest, or a value of the wrong type.
        """
        if not self._background.accepts():
            return
        with self._manifest_lock:
            manifest = self.manifest = self.manifest.updated(**fields)
            self._background.put(lambda: self._files.set_manifest(manifest))

    def flush(self) -> bool:
        """Return True when everything given so far is committed; False if writing failed or the disk hangs."""
        return self._background.flush(FLUSH_TIMEOUT_SECONDS)

    def close(self, status: RunStatus) -> None:
        """Commit everything, cut the arrays to their exact lengths, set the run's status and give up the lock."""
        if self._closed:
            return
        if self._background.accepts():
            self.manifest = self.manifest.updated(status=status)
        manifest = self.manifest
        self._end(lambda: self._files.finish(manifest))

    def _end(self, last: Any) -> None:
        self._closed = True
        _OPEN.discard(self)
        self._background.stop(last, CLOSE_TIMEOUT_SECONDS)
        self._files.lock.release()

    def _specs_of(self, group: str) -> dict[str, ArraySpec]:
        if group not in self._specs:
            raise UnknownNameError.among("group", group, GROUPS)
        return self._specs[group]

    def _column(self, group: str, name: str, specs: Mapping[str, ArraySpec], value: Any) -> Array:
        if name not in specs:
            raise UnknownNameError.among(f"array of {group}", name, specs)
        dims = specs[name].dims[1:]
        column: Array = np.array(value, dtype=specs[name].dtype)
        if column.ndim != len(dims):
            raise UsageError(f"{group}/{name}: a row has dims {dims}, the value given has shape {column.shape}")
        for dim, size in zip(dims, column.shape, strict=True):
            if dim == "reward_function" and dim not in self._labels:
                self.declare_reward_functions([f"reward_{i}" for i in range(size)])
            declared = len(self._labels.get(dim, ()))
            if dim in AXIS_COORDS and size != declared:
                raise UsageError(
                    f"{group}/{name}: {declared} on the {dim} axis are declared, the value given has {size}"
                )
        return column

    def _extend_axis(self, dim: str, labels: list[Any]) -> None:
        had = self._labels.get(dim, [])
        if len(set(labels)) != len(labels) and dim != "layer":
            twice = next(label for label in labels if labels.count(label) > 1)
            raise UsageError(f"{dim} {twice!r} is declared twice; names on an axis are unique")
        if labels[: len(had)] != had:
            differing = next(
                (a for a, b in zip(had, labels, strict=False) if a != b), had[min(len(labels), len(had) - 1)]
            )
            raise UsageError(
                f"the run's {dim} axis of {len(had)} entries can be extended, not changed; the new one differs at "
                f"{differing!r}: record into another directory"
            )
        self._labels[dim] = labels


def _size(columns: Mapping[str, Array]) -> int:
    return 512 + sum(column.nbytes for column in columns.values())


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        # One number that is too large must not cost the others of its row.
        return math.inf if value > 0 else -math.inf


def contents(run_dir: Path) -> list[str]:
    """Return the names of what a directory holds, sorted; nothing if it is absent.

    Empty folders do not count, for a trainer makes its `checkpoints/` before the recorder starts; nor does the lock.
    """
    if not run_dir.exists():
        return []
    return sorted(
        entry.name
        for entry in run_dir.iterdir()
        if entry.name != LOCK and not (entry.is_dir() and next(entry.iterdir(), None) is None)
    )


def _refuse_unless_empty(run_dir: Path) -> None:
    held = contents(run_dir)
    if held:
        listed = ", ".join(held[:3]) + (" …" if len(held) > 3 else "")
        raise DirectoryInUseError(
            f"{run_dir} is not empty (it holds {listed}); resume the run there, or record into another directory"
        )


def _commit_at_exit() -> None:
    # A script that never closed its recorder: what it measured is kept, and the run reads as interrupted.
    for writer in list(_OPEN):
        writer._end(writer._files.flush)


def _disown_in_child() -> None:
    # A data-loader worker must neither write nor keep the lock when its parent dies.
    for writer in list(_OPEN):
        writer._background.disown()
        writer._files.lock.abandon()


atexit.register(_commit_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_in_child)
