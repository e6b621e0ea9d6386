"""Weights on disk under the names of the live model, read one tensor at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from grpodyn.errors import MissingDataError, UnreadableError
from grpodyn.recording.checkpoint_files import CheckpointFiles

_EXPERTS = re.compile(
    r"^(?P<stem>.*\.)(?P<holder>mlp|block_sparse_moe|feed_forward)\.experts\.(?P<what>gate_up|down)_proj$"
)
_ROUTER = re.compile(r"^(?P<stem>.*\.)mlp\.gate\.weight$")
_HOLDERS = ("mlp", "block_sparse_moe", "feed_forward")
# (gate, up, down) of one expert on disk; the live model stacks them.
_EXPERT_LEAVES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))


class Weights(Protocol):
    """Where one version of the weights can be read."""

    place: str
    """What to call it: a folder."""

    def tensor(self, name: str) -> Tensor | None:
        """Return a weight by its canonical live name, None if it is not there."""
        ...

    def digest(self) -> str:
        """Return a SHA-256 that other weights do not have."""
        ...


class Trained(Weights, Protocol):
    """Weights after training, which may hold more than the model before it has a place for."""

    def beyond(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what it holds beside the weights of these canonical live names, by the names of its own files."""
        ...


class FolderWeights:
    """A folder of safetensors files, sharded or not, mapped into memory.

    Args:
        folder: where the files lie.
        files: their names; the folder's model files if not given.

    Raises:
        MissingDataError: there are none.
    """

    def __init__(self, folder: Path, files: list[str] | None = None) -> None:
        self.place = str(folder)
        try:
            self.files = CheckpointFiles(folder, files)
        except OSError as error:
            raise MissingDataError(f"the weights in {folder} cannot be read: {error}") from error
        if not self.files.files:
            raise MissingDataError(
                f"{folder} holds no weights in safetensors files (model.safetensors, or shards with an index); save "
                "the "
                "model with `save_pretrained`, or give the folder that holds it"
            )

    def tensor(self, name: str) -> Tensor | None:
        """Return a weight; experts that lie apart on disk are stacked as the live model has them."""
        groups = self._keys(name)
        if not groups:
            return None
        if not _EXPERTS.match(name) or self.files.find(name) is not None:
            return self.files.tensor(groups[0][0])
        return torch.stack([torch.cat([self.files.tensor(key) for key in keys]) for keys in groups])

    def beyond(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of the files that are read for none of these live names."""
        read = {key for name in names for keys in self._keys(name) for key in keys}
        return tuple(key for key in self.files.names if key not in read)

    def digest(self) -> str:
        """Return a digest of all files; of files too large to read just for that, of their sizes and samples."""
        whole = hashlib.sha256()
        for name, digest in sorted(self.files.sha256().items()):
            file = next(file for file in self.files.files if file.name == name)
            whole.update((digest or _sampled(file)).encode())
        return whole.hexdigest()

    def _keys(self, name: str) -> list[list[str]]:
        """Return the keys that make up a live weight, one list an expert where they lie apart; empty if not there."""
        key = self.files.find(name)
        if key is not None:
            return [[key]]
        return self._router(name) if _ROUTER.match(name) else self._stacked(name)

    def _router(self, name: str) -> list[list[str]]:
        found = _ROUTER.match(name)
        stem = found.group("stem") if found else ""
        key = next((k for h in _HOLDERS[1:] if (k := self.files.find(f"{stem}{h}.gate.weight")) is not None), None)
        return [] if key is None else [[key]]

    def _stacked(self, name: str) -> list[list[str]]:
        found = _EXPERTS.match(name)
        if found is None:
            return []
        for holder in dict.fromkeys((found.group("holder"), *_HOLDERS)):
            for gate, up, down in _EXPERT_LEAVES:
                leaves = (gate, up) if found.group("what") == "gate_up" else (down,)
                experts = self._experts(f"{found.group('stem')}{holder}.experts", leaves)
                if experts:
                    return experts
        return []

    def _experts(self, prefix: str, leaves: Sequence[str]) -> list[list[str]]:
        found: list[list[str]] = []
        while True:
            keys = [self.files.find(f"{prefix}.{len(found)}.{leaf}.weight") for leaf in leaves]
            known = [key for key in keys if key is not None]
            if len(known) < len(leaves):
                return found
            found.append(known)


class Overlaid:
    """Weights of which some lie in another folder: a run keeps what the checkpoint it started from did not hold."""

    def __init__(self, first: Weights, second: Weights) -> None:
        self._first, self._second = first, second
        self.place = f"{first.place} over {second.place}"

    def tensor(self, name: str) -> Tensor | None:
        """Return a weight from the first folder that holds it."""
        found = self._first.tensor(name)
        return found if found is not None else self._second.tensor(name)

    def digest(self) -> str:
        """Return a digest of both."""
        return hashlib.sha256(f"{self._first.digest()} {self._second.digest()}".encode()).hexdigest()


def _sampled(file: Path) -> str:
    """Return a digest of a file's size and of blocks spread over it."""
    size, blocks, length = file.stat().st_size, 256, 1 << 16
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for i in range(blocks):
            stream.seek(i * max(1, (size - length) // (blocks - 1)))
            digest.update(stream.read(length))
    return digest.hexdigest()


def required(weights: Weights, name: str) -> Tensor:
    """Return a weight.

    Raises:
        UnreadableError: it is not there.
    """
    found = weights.tensor(name)
    if found is None:
        raise UnreadableError(
            f"{weights.place} has no weight {name}, which the model has: it is the checkpoint of another model, or its "
            "files use other names than this version of transformers"
        )
    return found
