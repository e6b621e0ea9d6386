"""How many tensors are read together: small ones share kernel calls, large ones are cut to bound temporary memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpodyn.naming.shards import local

_PIECE = 1 << 18
"""Elements read at a time: a difference of that size stays near the cache."""


@dataclass(frozen=True)
class Piece:
    """Some rows of one tensor."""

    index: int
    """The tensor's place in its list."""
    start: int = 0
    stop: int | None = None
    """None where the piece is the whole tensor."""

    def of(self, tensor: Tensor) -> Tensor:
        """Return these rows of a tensor, or of the part of it that this rank holds."""
        values = local(tensor).detach()
        return values if self.stop is None else values[self.start : self.stop]


Batch = list[Piece]


def batches(tensors: Sequence[Tensor | None]) -> list[Batch]:
    """Return pieces that cover every tensor once, in batches of one device and dtype; None is left out."""
    open_batches: dict[tuple[torch.device, torch.dtype], tuple[Batch, int]] = {}
    done: list[Batch] = []
    for index, tensor in enumerate(tensors):
        if tensor is None:
            continue
        key = tensor.device, tensor.dtype
        for piece, numel in _cut(index, tensor):
            batch, filled = open_batches.get(key, ([], 0))
            if batch and filled + numel > _PIECE:
                done.append(batch)
                batch, filled = [], 0
            batch.append(piece)
            open_batches[key] = batch, filled + numel
    return [*done, *(batch for batch, _ in open_batches.values())]


def by_device(indices: Sequence[int], tensors: Sequence[Tensor | None]) -> list[list[int]]:
    """Return the places of tensors, those of one device together: what needs no temporary memory is read whole."""
    groups: dict[torch.device | None, list[int]] = defaultdict(list)
    for index in indices:
        tensor = tensors[index]
        groups[None if tensor is None else tensor.device].append(index)
    return list(groups.values())


def widened(tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensors in a dtype that differences survive in: half precision becomes float32."""
    if not tensors or tensors[0].dtype in (torch.float32, torch.float64):
        return tensors
    return [tensor.float() for tensor in tensors]


def differences(after: list[Tensor], before: list[Tensor]) -> list[Tensor]:
    """Return after − before of each pair, in at least float32."""
    return list(torch._foreach_sub(widened(after), widened(before)))


def _cut(index: int, tensor: Tensor) -> Iterator[tuple[Piece, int]]:
    numel = tensor.numel()
    if numel <= _PIECE or tensor.dim() == 0:
        yield Piece(index), numel
        return
    per_row = numel // tensor.shape[0]
    rows = max(1, _PIECE // per_row)
    for start in range(0, tensor.shape[0], rows):
        stop = min(start + rows, tensor.shape[0])
        yield Piece(index, start, stop), (stop - start) * per_row
