"""Counts the rows of a store whose `commit.json` is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from grpodyn.trace.commit import Commit
from grpodyn.trace.schema import AXIS_COORDS, GROUP_AXES, GROUPS
from grpodyn.trace.store import NODE, StoredArray, read_labels


def recount(store: Path) -> Commit:
    """Return what the store holds: rows up to the last one with a step, names up to the last one that is not empty.

    The last of these rows may have been in the middle of being written, which only the lost file could tell.
    """
    commit = Commit()
    for name in GROUPS:
        directory = store / name
        if not (directory / "step" / NODE).exists():
            continue
        try:
            step = StoredArray.open(directory / "step")
            chunks = [step.read_rows(i) for i in range(-(-step.shape[0] // step.chunks[0]))]
        except (OSError, ValueError, KeyError, RuntimeError):
            continue
        steps = np.concatenate(chunks)[: step.shape[0]] if chunks else np.empty(0)
        commit.rows[name] = int(np.flatnonzero(steps >= 0)[-1]) + 1 if (steps >= 0).any() else 0
        commit.axes[name] = _sizes(directory, GROUP_AXES[name])
    return commit


def _sizes(directory: Path, dim: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path in sorted(directory.iterdir()):
        try:
            array = StoredArray.open(path)
        except (OSError, ValueError, KeyError):
            continue
        if array.spec.dims[0] == "row":
            sizes |= {d: max(sizes.get(d, 0), n) for d, n in zip(array.spec.dims[1:], array.shape[1:], strict=True)}
    try:
        labels = read_labels(directory / dim, AXIS_COORDS[dim][dim], sizes.get(dim, 0))
    except (OSError, ValueError, RuntimeError):
        return sizes
    empty = "" if AXIS_COORDS[dim][dim] == "string" else -1
    while labels and labels[-1] == empty:
        labels.pop()
    return {**sizes, dim: len(labels)} if labels else sizes
