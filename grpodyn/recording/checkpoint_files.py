"""Weights in safetensors files, mapped into memory: read where they lie, never loaded whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

_INDEX = "model.safetensors.index.json"
_HASHED_BLOB = re.compile(r"[0-9a-f]{64}")
_READ = 1 << 22
_HASHED_BYTES = 4 << 30
"""Reading that much takes some ten seconds of a core."""


class CheckpointFiles:
    """The tensors of a folder of safetensors files, by the names that the files use.

    Args:
        folder: where the files lie.
        names: the files; all `model*.safetensors` of the folder if not given.
    """

    def __init__(self, folder: Path, names: list[str] | None = None) -> None:
        self.files = [folder / name for name in (names if names is not None else sorted(_weight_files(folder)))]
        self._handles = [safe_open(file, framework="pt") for file in self.files]
        self._where: dict[str, Any] = {key: handle for handle in self._handles for key in _keys(handle)}
        # Descriptors of the very files that are mapped: another file may come under the same name, which harms nothing.
        self._descriptors = [os.open(file, os.O_RDONLY) for file in self.files]
        self._stamps = [_stamp(descriptor) for descriptor in self._descriptors]
        weakref.finalize(self, _close, self._descriptors)

    def rewritten(self) -> Path | None:
        """Return a file that was written to since it was mapped: its tensors are others now, or end the process.

        A mapping beyond the end of a file that was cut is no error that could be caught, but a fault of the process.
        """
        for file, descriptor, stamp in zip(self.files, self._descriptors, self._stamps, strict=True):
            if _stamp(descriptor) != stamp:
                return file
        return None

    @property
    def names(self) -> list[str]:
        """The names that the files use."""
        return list(self._where)

    def find(self, name: str) -> str | None:
        """Return the key under which a weight of that canonical name is stored, or None.

        A checkpoint of the bare decoder lacks the prefix that a head puts before the decoder's names.
        """
        candidates = (name, name.removeprefix("model."), f"model.{name}", name.removeprefix("transformer."))
        return next((key for key in candidates if key in self._where), None)

    def tensor(self, key: str) -> Tensor:
        """Return a tensor of the files, backed by the mapped file."""
        tensor: Tensor = self._where[key].get_tensor(key)
        return tensor

    def sha256(self) -> dict[str, str | None]:
        """Return the digest of each file; None of files that are too large to read just for that.

        A hub cache names its blobs by digest, which saves the reading.
        """
        return {file.name: _digest(file) for file in self.files}


def folder_of(model_config: Any) -> tuple[Path, str | None] | None:
    """Return (folder, revision) of the files a model was loaded from, if they are on this machine.

    Looks into the folder, or into the hub's cache; never onto the network.
    """
    name = getattr(model_config, "_name_or_path", None) or getattr(model_config, "name_or_path", None)
    if not name:
        return None
    revision = getattr(model_config, "_commit_hash", None)
    if Path(name).is_dir():
        return Path(name), revision
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    for file in ("model.safetensors", _INDEX):
        try:
            found = try_to_load_from_cache(name, file, revision=revision)
        except HFValidationError:
            return None
        if isinstance(found, str):
            return Path(found).parent, revision
    return None


def _stamp(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _keys(handle: Any) -> list[str]:
    keys: list[str] = handle.keys()
    return keys


def _weight_files(folder: Path) -> Iterator[str]:
    index = folder / _INDEX
    if index.is_file():
        listing: Mapping[str, Any] = json.loads(index.read_text())
        yield from {str(file) for file in listing["weight_map"].values()}
    elif (folder / "model.safetensors").is_file():
        yield "model.safetensors"


def _digest(file: Path) -> str | None:
    target = file.resolve()
    if _HASHED_BLOB.fullmatch(target.name):
        return target.name
    if target.stat().st_size > _HASHED_BYTES:
        return None
    digest = hashlib.sha256()
    with target.open("rb") as stream:
        while block := stream.read(_READ):
            digest.update(block)
    return digest.hexdigest()
