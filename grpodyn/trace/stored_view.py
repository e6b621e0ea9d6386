"""A stored array as a live or damaged trace shows it: cut to what is committed, unreadable chunks as missing values."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.errors

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
DAMAGE = (OSError, RuntimeError, ValueError, KeyError, TypeError, zarr.errors.BaseZarrError)
"""What zarr and its codecs raise on a damaged document or chunk."""


class StoredView:
    """Reads as an array of shape `shape`, whatever the stored shape is; what cannot be read is the fill value.

    The stored shape differs from the committed one while a writer lives: arrays grow a whole chunk at a time.
    """

    def __init__(self, store: Path, path: str, shape: tuple[int, ...], note: Callable[[str], None]) -> None:
        self._array: Any = zarr.open_array(str(store), path=path, mode="r")
        self._path = path
        self._note = note
        self.shape = shape
        self.dtype = self._array.dtype
        self.ndim = len(shape)
        self.chunks: tuple[int, ...] = self._array.chunks
        if len(shape) != self._array.ndim:
            raise ValueError(f"{path} has {self._array.ndim} dimensions, expected {len(shape)}")

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        keys = (*keys, *[slice(None)] * (self.ndim - len(keys)))
        wanted = [range(*k.indices(n)) for k, n in zip(keys, self.shape, strict=True)]
        values: Array = np.full([len(r) for r in wanted], self._array.fill_value, self.dtype)
        stored = [slice(r.start, min(r.stop, n)) for r, n in zip(wanted, self._array.shape, strict=True)]
        if any(s.stop <= s.start for s in stored):
            return values
        target = values[tuple(slice(0, s.stop - s.start) for s in stored)]
        try:
            target[...] = self._array[tuple(stored)]
        except DAMAGE:
            self._read_by_chunk(stored, target)
        return values

    def _read_by_chunk(self, region: list[slice], target: Array) -> None:
        starts = [range(s.start - s.start % c, s.stop, c) for s, c in zip(region, self.chunks, strict=True)]
        for corner in itertools.product(*starts):
            part = [
                slice(max(s.start, start), min(s.stop, start + c))
                for s, start, c in zip(region, corner, self.chunks, strict=True)
            ]
            where = tuple(slice(p.start - s.start, p.stop - s.start) for p, s in zip(part, region, strict=True))
            try:
                target[where] = self._array[tuple(part)]
            except DAMAGE as error:
                index = "/".join(str(start // c) for start, c in zip(corner, self.chunks, strict=True))
                logger.debug("unreadable chunk %s/c/%s: %s", self._path, index, error)
                self._note(f"{self._path}/c/{index}: unreadable chunk, its values are missing")
