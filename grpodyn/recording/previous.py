"""W_{t−1}: copies of the weights before a step, or of sampled rows where memory is short."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpodyn.naming.shards import Share, local
from grpodyn.recording.pieces import Piece

_SEED = 20240501
"""Which rows are sampled is fixed, so that two runs of one model compare."""


class PreviousWeights:
    """Holds what the weights were before the optimizer's step.

    Vectors are always copied whole. If all matrices fit into the limit, so are they; else each matrix gets the same
    number of bytes at most, so that small ones stay exact and large ones are known by sampled rows.

    Args:
        tensors: the live weights.
        limit: bytes of all copies.
        shares: what this rank holds of tensors that are split among ranks, one for each tensor.
    """

    def __init__(self, tensors: Sequence[Tensor], limit: int, shares: Sequence[Share | None] | None = None) -> None:
        # Not detached: a detached tensor would stay with the old values when a parameter is given other storage.
        self._tensors = list(tensors)
        here = [local(tensor) for tensor in self._tensors]
        wholes = shares or [None] * len(here)
        # A part of a matrix may be flat.
        dims = [held.dim() if share is None else len(share.shape) for held, share in zip(here, wholes, strict=True)]
        self._rows = _sampled_rows(here, limit, [i for i, count in enumerate(dims) if count > 1])
        self.copies = [
            torch.empty_like(tensor)
            if rows is None
            else torch.empty((len(rows), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
            for tensor, rows in zip(here, self._rows, strict=True)
        ]
        """Weights before the step; of sampled tensors, the sampled rows."""
        self._whole = [i for i, rows in enumerate(self._rows) if rows is None]

    def forget(self, index: int) -> None:
        """Keep nothing of a weight from now on: it is no longer the tensor that was there at the start."""
        self._rows[index] = torch.empty(0, dtype=torch.int64)
        self.copies[index] = self.copies[index].new_empty(0)
        self._whole = [i for i in self._whole if i != index]

    @torch.no_grad()
    def take(self) -> None:
        """Copy the live weights."""
        if self._whole:
            torch._foreach_copy_([self.copies[i] for i in self._whole], [local(self._tensors[i]) for i in self._whole])
        for tensor, rows, copy in zip(self._tensors, self._rows, self.copies, strict=True):
            if rows is not None and len(rows):
                torch.index_select(local(tensor), 0, rows, out=copy)

    def is_sampled(self, index: int) -> bool:
        """Return whether only some rows of a tensor are known."""
        return self._rows[index] is not None

    def matching(self, piece: Piece, tensor: Tensor) -> Tensor:
        """Return what of `tensor` (shaped and split like the weight) answers a piece of the weight's copy."""
        rows = self._rows[piece.index]
        return piece.of(tensor) if rows is None else local(tensor).detach().index_select(0, piece.of(rows))

    def scale(self, index: int) -> float:
        """Return what a sum over the copy is multiplied by to estimate the sum over the tensor; 1 if it is whole."""
        rows = self._rows[index]
        return 1.0 if rows is None else local(self._tensors[index]).shape[0] / len(rows)

    def method(self, index: int) -> str:
        """Return how weight `index` is known, for the manifest."""
        rows = self._rows[index]
        return "copy" if rows is None else f"{len(rows)} sampled of {local(self._tensors[index]).shape[0]} rows"


def _sampled_rows(tensors: list[Tensor], limit: int, matrices: list[int]) -> list[Tensor | None]:
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    left = limit - (sum(sizes) - sum(sizes[i] for i in matrices))
    cap = _equal_share([sizes[i] for i in matrices], left)
    generator = torch.Generator().manual_seed(_SEED)
    sampled: list[Tensor | None] = [None] * len(tensors)
    for i in matrices:
        if sizes[i] > cap:
            rows = tensors[i].shape[0]
            kept = max(1, int(rows * cap / sizes[i]))
            chosen = torch.randperm(rows, generator=generator)[:kept].sort().values
            sampled[i] = chosen.to(tensors[i].device)
    return sampled


def _equal_share(sizes: list[int], limit: int) -> float:
    """Return the largest cap c with Σ min(size, c) ≤ limit.

    >>> _equal_share([1, 4, 9], 8), _equal_share([1, 4, 9], 20)
    (3.5, 9.0)
    """
    left = float(max(0, limit))
    for place, size in enumerate(sorted(sizes)):
        share = left / (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return float(max(sizes, default=0))
