"""Finds damaged files of a store without decoding them: what a power cut or a full disk leaves behind."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from grpodyn.trace.schema import CHUNK_ROWS, GROUPS, ROW_ARRAYS
from grpodyn.trace.store import NODE

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_RLE_BLOCK = 1
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Damage:
    """One damaged file of the store."""

    path: Path
    what: str

    def describe(self, store: Path) -> str:
        """Return one sentence for people."""
        return f"{self.path.relative_to(store)}: {self.what}"


def damages(store: Path, groups: Collection[str] = GROUPS) -> list[Damage]:
    """Return every file of the store that is empty, cut short or not JSON. Reads a few bytes of each chunk."""
    found = _damaged_node(store)
    for group in sorted(path for path in store.iterdir() if path.is_dir() and path.name in groups):
        found += _damaged_node(group)
        for array in sorted(path for path in group.iterdir() if path.is_dir()):
            found += _damaged_node(array)
            for chunk in sorted(path for path in array.rglob("*") if path.is_file()):
                if chunk.name != NODE and not chunk.name.endswith(".partial"):
                    found += _damaged_chunk(chunk)
    return found


def lost_chunks(store: Path, rows: Mapping[str, int]) -> list[Damage]:
    """Return every chunk file that is gone although its rows were committed.

    An array is written from its first value on, so what is missing before that is no loss; nor can the last, unfinished
    chunk be told from one without a value, but for `step` and `segment`, which every row has.

    Args:
        store: the Zarr store.
        rows: committed rows of each group.
    """
    found: list[Damage] = []
    for group, count in rows.items():
        directory = store / group
        for array in sorted(path for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else ():
            trailing = _trailing_chunks(array)
            if trailing is None:
                continue
            expected = range(-(-count // CHUNK_ROWS) if array.name in ROW_ARRAYS else count // CHUNK_ROWS)
            corner = (0,) * len(trailing)
            by_row: dict[int, set[tuple[int, ...]]] = {}
            for chunk in _chunk_indices(array):
                if len(chunk) == 1 + len(trailing) and all(i < n for i, n in zip(chunk[1:], trailing, strict=True)):
                    by_row.setdefault(chunk[0], set()).add(chunk[1:])
            first = 0 if array.name in ROW_ARRAYS else min(by_row, default=len(expected))
            lost = [(index, *corner) for index in expected if index >= first and index not in by_row]
            # Chunks of the same rows fill a box.
            for index, others in by_row.items():
                box = itertools.product(*(range(max(along) + 1) for along in zip(*others, strict=True)))
                lost += [(index, *other) for other in box if other not in others]
            found += [Damage(array.joinpath("c", *map(str, index)), "missing chunk") for index in sorted(lost)]
    return found


def _chunk_indices(array: Path) -> list[tuple[int, ...]]:
    """Return the place in the grid of every file that has the name of a chunk."""
    names = [path.relative_to(array / "c").parts for path in (array / "c").rglob("*") if path.is_file()]
    return [tuple(map(int, parts)) for parts in names if all(_INDEX.fullmatch(part) for part in parts)]


def _trailing_chunks(array: Path) -> tuple[int, ...] | None:
    """Return how many chunks an array over rows has along each further dimension; None of any other array."""
    try:
        document = json.loads((array / NODE).read_bytes())
        if document["dimension_names"][0] != "row":
            return None
        sizes = zip(document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"], strict=True)
        return tuple(-(-int(size) // int(chunk)) for size, chunk in list(sizes)[1:])
    except (OSError, ValueError, LookupError, TypeError, ZeroDivisionError):
        return None  # A damaged document is named by `damages`.


def node_is_whole(directory: Path) -> bool:
    """Return whether the `zarr.json` of a group or array can be read."""
    return (directory / NODE).exists() and not _damaged_node(directory)


def _damaged_node(directory: Path) -> list[Damage]:
    path = directory / NODE
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return [Damage(path, "missing")] if any(directory.iterdir()) else []
    except ValueError:
        size = path.stat().st_size
        return [Damage(path, "empty file" if size == 0 else "not JSON (cut short?)")]
    whole = isinstance(document, dict) and document.get("zarr_format") == 3
    return [] if whole else [Damage(path, "not a Zarr v3 document")]


def _damaged_chunk(path: Path) -> list[Damage]:
    try:
        size = path.stat().st_size
        if size == 0:
            return [Damage(path, "empty chunk")]
        expected = zstd_frame_size(path)
    except FileNotFoundError:
        return []  # A living writer deleted it meanwhile.
    if expected is not None and expected != size:
        return [Damage(path, f"truncated chunk ({size} bytes)")]
    return []


def zstd_frame_size(path: Path) -> int | None:
    """Return the length that the Zstandard frame in `path` claims, or None if it is no such frame.

    Follows the block headers (RFC 8878, section 3.1.1); a frame that ends early claims more than the file holds.
    """
    with path.open("rb") as file:
        if file.read(4) != _ZSTD_MAGIC:
            return None
        descriptor = file.read(1)
        if not descriptor:
            return 5
        flags = descriptor[0]
        single_segment = bool(flags & 0x20)
        content_size_bytes = (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
        position = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[flags & 3] + content_size_bytes
        while True:
            header = os.pread(file.fileno(), 3, position)
            if len(header) < 3:
                return position + 3
            block = int.from_bytes(header, "little")
            position += 3 + (1 if (block >> 1) & 3 == _RLE_BLOCK else block >> 3)
            if block & 1:
                return position + (4 if flags & 0x04 else 0)
