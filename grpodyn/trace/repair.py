"""Mends a run that a power cut or a full disk damaged: what cannot be read is set aside, the rest becomes whole."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np

from grpodyn.errors import SchemaError
from grpodyn.trace.commit import Commit
from grpodyn.trace.lock import WriterLock
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.recount import recount
from grpodyn.trace.run_files import restore_groups, sweep_partial_files
from grpodyn.trace.schema import (
    AXIS_COORDS,
    CHUNK_ROWS,
    FIXED_ARRAYS,
    GROUP_AXES,
    GROUPS,
    ROW_ARRAYS,
    STORE,
    ArraySpec,
    axis_capacity,
    chunk_shape,
)
from grpodyn.trace.store import LABEL_CHUNK, NODE, StoredArray, array_document, decoded, write_document, write_group
from grpodyn.trace.verify import lost_chunks, node_is_whole

ASIDE = "damaged"
"""Folder of the run directory that unreadable files are moved to, under their own paths."""


def repair(run_dir: Path) -> list[str]:
    """Make the store whole and exactly as long as its commit; return what was done, one sentence each.

    Raises:
        NotARunError, SchemaError: `run_dir` holds no run of this schema.
        DirectoryInUseError: a living writer has it.
    """
    manifest = Manifest.read(run_dir)
    lock = WriterLock.acquire(run_dir)
    try:
        return _Repair(run_dir).run(manifest.schema_version)
    finally:
        lock.release()


class _Repair:
    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._store = run_dir / STORE
        self._done: list[str] = []
        self._commit = Commit()

    def run(self, schema_version: int) -> list[str]:
        partial = sweep_partial_files(self._run_dir)
        if partial:
            self._done.append(f"deleted {partial} half-written files")
        if not node_is_whole(self._store):
            write_group(self._store, {"grpodyn_schema_version": schema_version})
            self._done.append(f"wrote {STORE}/{NODE} anew")
        self._recover_commit()
        for group in GROUPS:
            if (self._store / group).is_dir():
                self._mend_group(group)
        self._fill_lost_chunks()
        self._trim()
        return self._done

    def _recover_commit(self) -> None:
        try:
            commit = Commit.read(self._run_dir)
        except SchemaError:
            commit = None
        if commit is None:
            self._mend_documents_of_rows()
            commit = recount(self._store)
            commit.write(self._run_dir)
            self._done.append(f"counted the rows anew into commit.json: {commit.rows}")
        self._commit = commit

    def _mend_documents_of_rows(self) -> None:
        # Rows can only be counted where `step` can be read.
        for group in GROUPS:
            directory = self._store / group / "step"
            if directory.is_dir() and not node_is_whole(directory):
                chunks = len(list((directory / "c").glob("*")))
                self._write_document(directory, ROW_ARRAYS["step"], (chunks * CHUNK_ROWS,), (CHUNK_ROWS,))

    def _mend_group(self, group: str) -> None:
        directory = self._store / group
        if not node_is_whole(directory):
            coordinates = [
                *ROW_ARRAYS,
                *(name for name in AXIS_COORDS[GROUP_AXES[group]] if (directory / name).is_dir()),
            ]
            write_group(directory, {"coordinates": " ".join(coordinates)})
            self._done.append(f"wrote {group}/{NODE} anew")
        for array in sorted(path for path in directory.iterdir() if path.is_dir()):
            self._set_bad_chunks_aside(array)
            if not node_is_whole(array):
                self._mend_document(group, array)

    def _set_bad_chunks_aside(self, array: Path) -> None:
        for chunk in sorted(path for path in (array / "c").rglob("*") if path.is_file()):
            try:
                decoded(chunk)
            except (OSError, RuntimeError, ValueError):
                relative = chunk.relative_to(self._store)
                self._set_aside(chunk)
                twin = self._twin_of_label(relative)
                if twin is not None:
                    shutil.copyfile(twin, chunk)
                    self._done.append(
                        f"{relative}: unreadable chunk, copied again from {twin.relative_to(self._store)}"
                    )
                else:
                    self._done.append(f"{relative}: unreadable chunk moved to {ASIDE}/, its values are missing now")

    def _twin_of_label(self, relative: Path) -> Path | None:
        """`tensors` and `spectra` hold the same names; one can give the other back what it lost."""
        group, name = relative.parts[:2]
        other = {"tensors": "spectra", "spectra": "tensors"}.get(group)
        if other is None or name not in AXIS_COORDS["tensor"]:
            return None
        twin = self._store.joinpath(other, *relative.parts[1:])
        try:
            decoded(twin)
        except (OSError, RuntimeError, ValueError):
            return None
        return twin

    def _mend_document(self, group: str, array: Path) -> None:
        relative = array.relative_to(self._store)
        coords = AXIS_COORDS[GROUP_AXES[group]]
        sizes = self._commit.axes.get(group, {})
        if array.name in coords:
            dim = GROUP_AXES[group]
            spec = ArraySpec((dim,), coords[array.name])
            self._write_document(array, spec, (sizes.get(dim, 0),), (LABEL_CHUNK,))
            return
        spec = self._guessed_spec(group, array)
        shape = (self._commit.rows.get(group, 0), *(sizes.get(dim, 0) for dim in spec.dims[1:]))
        chunks = _fitting_chunks(array, spec, tuple(axis_capacity(dim, sizes.get(dim, 0)) for dim in spec.dims[1:]))
        if chunks is None:
            self._set_aside(array)
            self._done.append(f"{relative}: its {NODE} is lost and cannot be derived; moved to {ASIDE}/")
        else:
            self._write_document(array, spec, shape, chunks)

    def _guessed_spec(self, group: str, array: Path) -> ArraySpec:
        known = {**ROW_ARRAYS, **FIXED_ARRAYS.get(group, {})}
        if array.name in known:
            return known[array.name]
        # Probes store float32 over the group's axis, and over k where a chunk's path has a third index.
        depth = max((len(path.relative_to(array / "c").parts) for path in _chunks(array)), default=2)
        return ArraySpec(("row", GROUP_AXES[group], "k")[:depth])

    def _write_document(self, array: Path, spec: ArraySpec, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
        attributes: dict[str, str] | None = {} if spec.dims[0] != "row" else None
        write_document(array, array_document(spec, shape, chunks, attributes))
        self._done.append(f"wrote {array.relative_to(self._store)}/{NODE} anew")

    def _fill_lost_chunks(self) -> None:
        for lost in lost_chunks(self._store, self._commit.rows):
            relative = lost.path.relative_to(self._store)
            array = self._store.joinpath(*relative.parts[:2])
            StoredArray.open(array).write_chunk(tuple(map(int, lost.path.relative_to(array / "c").parts)))
            self._done.append(f"{relative}: missing chunk, filled with missing values")

    def _trim(self) -> None:
        before = self._row_lengths()
        dropped = sorted(g for g in GROUPS if (self._store / g).is_dir() and g not in self._commit.rows)
        for group in restore_groups(self._run_dir).values():
            group.write()
            group.trim()
        self._done += [f"deleted group {group}, of which nothing was committed" for group in dropped]
        for name, length in self._row_lengths().items():
            if before.get(name, length) != length:
                self._done.append(f"cut {name} from {before[name]} stored rows to the {length} committed")

    def _row_lengths(self) -> dict[str, int]:
        lengths: dict[str, int] = {}
        for group in GROUPS:
            path = self._store / group / "step" / NODE
            if path.exists():
                lengths[group] = int(json.loads(path.read_bytes())["shape"][0])
        return lengths

    def _set_aside(self, path: Path) -> None:
        target = self._run_dir / ASIDE / path.relative_to(self._store)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)


def _chunks(array: Path) -> list[Path]:
    return [path for path in (array / "c").rglob("*") if path.is_file()]


def _fitting_chunks(array: Path, spec: ArraySpec, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the chunk shape that agrees with the chunks on disk, or None."""
    guess = chunk_shape(sizes)
    for path in _chunks(array)[:1]:
        cells = len(decoded(path)) // np.dtype(spec.dtype).itemsize
        if cells != math.prod(guess):
            return (CHUNK_ROWS, cells // CHUNK_ROWS) if len(guess) == 2 and cells % CHUNK_ROWS == 0 else None
    return guess
