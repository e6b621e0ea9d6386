"""Squared Frobenius norms that stay exact on large tensors.

A plain float32 `norm()` over 16 M equal elements is 2 % off on the CPU, because one running sum swallows its last
addends. Here float32 only ever sums short blocks; float64 adds the blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

# Equal elements (Adam's first step is ±lr everywhere) round the same way each time, so the error grows with the block:
# squared norms are 4e-6 off with blocks of 4,096 and 2e-7 with 256, at the same speed.
_BLOCK = 256
# Block norms of these need no wider copy first.
_UNCOPIED = (torch.float32, torch.float64)
# Bounds the float32 copy of a half-precision tensor, and stays inside the cache.
_PIECE = 1 << 18
# Up to this many elements float64 costs no more than the kernel call, and stacking is cheaper than one call each.
_SMALL = 1 << 12
# float32 squares leave the normal range for elements under 1e-19 or over 1e19.
_SMALLEST, _LARGEST = 1e-25, 1e38


def squared_norm(x: Float[Tensor, "*shape"]) -> Float64[Tensor, ""]:
    """Return ‖x‖_F² = Σ x_i², accurate to 1e-6 relative, of a tensor of any shape, layout and floating dtype.

    Half precision is widened piece by piece, so that memory stays bounded.

    Args:
        x: any shape, any unit; may be non-contiguous or empty.

    Returns:
        0-d float64 tensor on x's device, in x's unit squared. 0 of an empty tensor; nan or inf if x holds them.

    >>> squared_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(25., dtype=torch.float64)
    """
    x = x.detach()
    if x.numel() == 0:
        return torch.zeros((), dtype=torch.float64, device=x.device)
    if x.device.type != "cpu":
        # Accelerators widen inside the reduction kernel: exact, one pass, and no value has to reach the host.
        norm: Tensor = torch.linalg.vector_norm(x, dtype=torch.float64)
        return norm.square()
    if x.numel() <= _SMALL:
        wide = x.reshape(-1).double()
        return torch.dot(wide, wide)
    blocks = _block_norms(x).double()
    total = torch.dot(blocks, blocks)
    return total if _SMALLEST < float(total) < _LARGEST else _squared_norm_float64(x)


def squared_norms(tensors: Sequence[Float[Tensor, "..."]]) -> Float64[Tensor, " n"]:
    """Return ‖x‖_F² of each tensor; `squared_norm` for many tensors, sharing kernel calls among small ones.

    Args:
        tensors: n tensors of any shapes, on one device.

    Returns:
        float64, shape (n,), on the tensors' device.

    >>> squared_norms([torch.ones(3), torch.zeros(2, 2), torch.ones(5)])
    tensor([3., 0., 5.], dtype=torch.float64)
    """
    if not tensors:
        return torch.zeros(0, dtype=torch.float64)
    if tensors[0].device.type != "cpu":
        return torch.stack([squared_norm(x) for x in tensors])
    # On the CPU a number costs less than a tensor of one.
    result = [0.0] * len(tensors)
    small: dict[tuple[int, torch.dtype], list[int]] = defaultdict(list)
    large: list[int] = []
    for i, x in enumerate(tensors):
        if x.numel() > _SMALL:
            large.append(i)
        elif x.numel():
            small[x.numel(), x.dtype].append(i)
    for members in small.values():
        rows = torch.stack([tensors[i].detach().reshape(-1) for i in members])
        for i, total in zip(members, rows.double().square().sum(1).tolist(), strict=True):
            result[i] = total
    for i in large:
        blocks = _block_norms(tensors[i].detach()).double()
        result[i] = float(torch.dot(blocks, blocks))
        if not _SMALLEST < result[i] < _LARGEST:
            result[i] = float(_squared_norm_float64(tensors[i].detach()))
    return torch.tensor(result, dtype=torch.float64)


def _block_norms(x: Tensor) -> Tensor:
    """Return the norms of consecutive blocks of at most `_BLOCK` elements."""
    norms: list[Tensor] = []
    for piece in _flat_pieces(x):
        values = piece if piece.dtype in _UNCOPIED else piece.float()
        whole = values.numel() - values.numel() % _BLOCK
        if whole:
            norms.append(torch.linalg.vector_norm(values[:whole].view(-1, _BLOCK), dim=1))
        if whole < values.numel():
            norms.append(torch.linalg.vector_norm(values[whole:]).view(1))
    return norms[0] if len(norms) == 1 else torch.cat(norms)


def _flat_pieces(x: Tensor) -> Iterator[Tensor]:
    """Yield every element of x once, as contiguous vectors; copies at most `_PIECE` elements or one row at a time."""
    if not x.is_contiguous():
        # A norm does not care for order: a transposed matrix is contiguous again in its memory order.
        x = x.permute(sorted(range(x.dim()), key=x.stride, reverse=True))
    if x.is_contiguous():
        flat = x.view(-1)
        yield from (flat,) if x.dtype in _UNCOPIED else torch.split(flat, _PIECE)
        return
    per_row = x[0].numel()
    if per_row > _PIECE:
        for row in x:
            yield from _flat_pieces(row)
        return
    for rows in torch.split(x, max(1, _PIECE // per_row)):
        yield rows.reshape(-1)


def _squared_norm_float64(x: Tensor) -> Tensor:
    """Return ‖x‖_F² with every square in float64, after a quick look that settles zero, inf and nan."""
    largest: Tensor = torch.linalg.vector_norm(x, torch.inf).double()
    if float(largest) == 0.0 or not bool(torch.isfinite(largest)):
        return largest
    total = torch.zeros((), dtype=torch.float64)
    for piece in _flat_pieces(x):
        for part in torch.split(piece, _PIECE):
            wide = part.double()
            total += torch.dot(wide, wide)
    return total
