"""What a DoRA makes of its weight: rescaled rows, so that its update has full rank and is formed dense."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor


def dora_update(
    weight: Float[Tensor, "m n"],
    b: Float[Tensor, "m r"],
    a: Float[Tensor, "r n"],
    magnitude: Float[Tensor, " m"],
    scale: float = 1.0,
) -> Float64[Tensor, "m n"]:
    """Return diag(magnitude / ‖V‖_row) V − W with V = W + scale·B·A, in float64.

    Args:
        weight: W, frozen, shape (m, n), rows being output features.
        b: shape (m, r).
        a: shape (r, n).
        magnitude: the trained norms of the rows, shape (m,).
        scale: α/r, or what the adapter's variant puts in its place.

    Returns:
        In W's unit; nan in rows where V is 0.

    Reference: Liu et al. 2024 (arXiv 2402.09353), equation 5.

    >>> weight = torch.tensor([[3.0, 4.0]])
    >>> dora_update(weight, torch.zeros(1, 1), torch.ones(1, 2), torch.tensor([10.0]))
    tensor([[3., 4.]], dtype=torch.float64)
    """
    start = weight.detach().double()
    directed = torch.addmm(start, b.detach().double(), a.detach().double(), alpha=scale)
    factor = magnitude.detach().double() / torch.linalg.vector_norm(directed, dim=1)
    return directed.mul_(factor[:, None]).sub_(start)
