"""The writer's memory of one group: the rows of the last, unfinished chunk, so that a flush writes and never reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.trace.schema import (
    AXIS_COORDS,
    CHUNK_ROWS,
    FIXED_ARRAYS,
    GROUP_AXES,
    ROW_ARRAYS,
    ArraySpec,
    axis_capacity,
    row_capacity,
)
from grpodyn.trace.store import NODE, StoredArray, resize_labels, write_group, write_labels

Array = np.ndarray[Any, Any]


class Tail:
    """Rows of one array since the last full chunk; both rows and sizes grow as values come."""

    def __init__(self, spec: ArraySpec, rows: Array | None = None) -> None:
        self.spec = spec
        self.rows: Array = np.full((0,) * len(spec.dims), spec.fill, spec.dtype) if rows is None else rows

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions after `row`."""
        return tuple(int(n) for n in self.rows.shape[1:])

    def put(self, index: int, value: Array) -> None:
        """Set row `index`; what a smaller value does not cover is missing."""
        sizes: tuple[int, ...] = tuple(max(a, b) for a, b in zip(self.sizes, value.shape, strict=True))
        if index >= len(self.rows) or sizes != self.sizes:
            # Doubled, not allocated whole: 512 rows of (row, tensor, k) are 100 MB on a large model.
            allocated = min(CHUNK_ROWS, max(8, 2 * index, len(self.rows)))
            grown: Array = np.full((allocated, *sizes), self.spec.fill, self.spec.dtype)
            grown[tuple(slice(0, n) for n in self.rows.shape)] = self.rows
            self.rows = grown
        where: tuple[slice, ...] = (slice(index, index + 1), *(slice(0, n) for n in value.shape))
        self.rows[where] = value


class GroupBuffer:
    """One group of the store, owned by the writer's thread."""

    def __init__(self, store: Path, name: str) -> None:
        self.name = name
        self.rows = 0
        self.sizes: dict[str, int] = {}
        """Entries per dimension other than `row`."""
        self._directory = store / name
        self.specs: dict[str, ArraySpec] = {**ROW_ARRAYS, **FIXED_ARRAYS.get(name, {})}
        self._tails: dict[str, Tail] = {}
        self._stored: dict[str, StoredArray] = {}
        self._dirty: set[str] = set()
        self._labels: dict[str, list[Any]] = {}
        self._labels_dirty = False
        self._attributes: dict[str, Any] = {}
        self._node_dirty = False
        self._last: tuple[int, int] | None = None
        """Step and segment of the last row that was appended."""

    @property
    def dirty(self) -> bool:
        """Whether a flush has something to write."""
        return bool(self._dirty) or self._labels_dirty or self._node_dirty

    @property
    def axis_names(self) -> list[Any]:
        """Labels of the group's named axis."""
        return self._labels.get(GROUP_AXES[self.name], [])

    def declare(self, arrays: Mapping[str, ArraySpec]) -> None:
        """Add arrays; each appears on disk with its first value."""
        self.specs.update(arrays)

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the group."""
        self._attributes.update(attributes)
        self._node_dirty = True

    def label_axis(self, labels: Mapping[str, Sequence[Any]]) -> None:
        """Set the coordinates of the group's named axis; the axis may grow, never shrink."""
        self._labels = {name: list(values) for name, values in labels.items()}
        dim = GROUP_AXES[self.name]
        self.sizes[dim] = max(self.sizes.get(dim, 0), len(self._labels[dim]))
        self._labels_dirty = True

    def append(self, step: int, segment: int, values: Mapping[str, Array]) -> None:
        """Add one row; a full chunk is written at once, to be committed with the next flush."""
        self._put(self.rows % CHUNK_ROWS, {"step": np.asarray(step), "segment": np.asarray(segment), **values})
        self.rows += 1
        self._last = step, segment
        self._close_full_chunk()

    def amend(self, step: int, segment: int, values: Mapping[str, Array]) -> bool:
        """Set more values of the last row; return whether it is of that step and segment.

        Raises:
            OSError, RuntimeError, ValueError: it ends a chunk, which cannot be read again or written.
        """
        if self._last != (step, segment):
            return False
        chunk, index = divmod(self.rows - 1, CHUNK_ROWS)
        if not self._tails:
            # The row has filled its chunk, which was written and let go.
            self._tails = {name: Tail(array.spec, array.read_rows(chunk)) for name, array in self._stored.items()}
        self._put(index, values)
        self._close_full_chunk()
        return True

    def _put(self, index: int, columns: Mapping[str, Array]) -> None:
        for name, value in columns.items():
            tail = self._tails.get(name)
            if tail is None:
                tail = self._tails[name] = Tail(self.specs[name])
            tail.put(index, value)
            for dim, size in zip(tail.spec.dims[1:], value.shape, strict=True):
                self.sizes[dim] = max(self.sizes.get(dim, 0), size)
        self._dirty.update(columns)

    def _close_full_chunk(self) -> None:
        if self.rows % CHUNK_ROWS == 0:
            self.write()
            # Arrays that had no value in these rows get a chunk too: one that is missing is then one that was lost.
            for name in self._stored.keys() - self._tails.keys():
                array = self._stored[name]
                array.write_chunk((self.rows // CHUNK_ROWS - 1, *(0 for _ in array.chunks[1:])))
            self._tails.clear()

    def write(self) -> None:
        """Write what changed: names, then room, then values.

        Raises:
            OSError: the disk is full or gone.
        """
        if not self.dirty:
            return
        # The group's node changes with its labels and attributes only; arrays come and go beside it.
        if self._labels_dirty or self._node_dirty or not (self._directory / NODE).exists():
            self._write_node()
            self._node_dirty = False
        if self._labels_dirty:
            dim = GROUP_AXES[self.name]
            for name, labels in self._labels.items():
                dtype = AXIS_COORDS[dim][name]
                write_labels(self._directory / name, dim, dtype, labels, axis_capacity(dim, self.sizes[dim]))
            self._labels_dirty = False
        if self._dirty:
            for name in self._dirty - self._stored.keys():
                directory, spec = self._directory / name, self.specs[name]
                self._stored[name] = StoredArray.create(directory, spec, self._capacity(spec))
            for array in self._stored.values():
                array.resize(self._capacity(array.spec))
            for name in self._dirty:
                filled = (self.rows - 1) % CHUNK_ROWS + 1
                self._stored[name].write_rows((self.rows - 1) // CHUNK_ROWS, self._tails[name].rows[:filled])
            self._dirty.clear()

    def trim(self) -> None:
        """Cut every array to the rows and entries it holds, so that plain xarray reads the store exactly."""
        for array in self._stored.values():
            array.resize((self.rows, *(self.sizes.get(dim, 0) for dim in array.spec.dims[1:])))
        if self._labels:
            dim = GROUP_AXES[self.name]
            for name in self._labels:
                resize_labels(self._directory / name, dim, AXIS_COORDS[dim][name], self.sizes[dim])

    def restore(self, rows: int, sizes: Mapping[str, int], labels: Mapping[str, Sequence[Any]]) -> None:
        """Take up a group that a former writer left, cut to `rows` committed rows.

        Raises:
            OSError, ValueError, KeyError, RuntimeError: an array is damaged.
        """
        self.rows, self.sizes = rows, dict(sizes)
        self._attributes = dict(json.loads((self._directory / NODE).read_bytes())["attributes"])
        if labels:
            self.label_axis(labels)
        coords = AXIS_COORDS[GROUP_AXES[self.name]]
        for directory in sorted(self._directory.iterdir()):
            if directory.name in coords or not (directory / NODE).exists():
                continue
            array = StoredArray.open(directory)
            kept = rows % CHUNK_ROWS
            if kept:
                # Rows beyond the commit lie in this chunk; the next write replaces them by fill values.
                tail = array.read_rows(rows // CHUNK_ROWS)[:kept].copy()
                self._tails[directory.name] = Tail(array.spec, tail)
                self._dirty.add(directory.name)
            array.resize((rows, *array.shape[1:]))
            self._stored[directory.name] = array
            self.specs[directory.name] = array.spec

    def _capacity(self, spec: ArraySpec) -> tuple[int, ...]:
        return (row_capacity(self.rows), *(axis_capacity(dim, self.sizes.get(dim, 0)) for dim in spec.dims[1:]))

    def _write_node(self) -> None:
        coordinates = ["step", "segment", *self._labels]
        write_group(self._directory, {**self._attributes, "coordinates": " ".join(coordinates)})
