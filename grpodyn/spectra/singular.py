"""Exact singular values of weight deltas."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpodyn.spectra.lowrank import LowRank

# A Gram matrix squares the condition: its small eigenvalues carry an error of 1e-16 λ_max, so σ_min keeps six digits.
_GRAM_TRUSTED = 1e-10


def singular_values(x: Tensor | LowRank) -> NDArray[np.float64]:
    """Return all singular values of a matrix, within 1e-6 relative of float64 `svdvals`; deterministic.

    Args:
        x: shape (m, n) of any floating dtype (a vector counts as (n, 1)), or the factors of such a matrix.

    Returns:
        float64, shape (min(m, n),), descending, in x's unit. All nan if x holds NaN or Inf; zeros of a zero matrix.

    >>> singular_values(torch.tensor([[0.0, -3.0], [1.0, 0.0], [0.0, 0.0]]))
    array([3., 1.])
    """
    if isinstance(x, LowRank):
        if not (_all_finite(x.left) and _all_finite(x.right)):
            return np.full(min(x.shape[-2:]), np.nan)
        return x.singular_values().cpu().numpy()
    matrix = x.detach().double()
    matrix = matrix.unsqueeze(1) if matrix.dim() == 1 else matrix
    if matrix.dim() != 2:
        raise ValueError(f"a matrix has two dimensions, this tensor {tuple(x.shape)}; pass one matrix of the stack")
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    rank = matrix.shape[1]
    if not _all_finite(matrix):
        return np.full(rank, np.nan)
    scale = float(matrix.abs().max()) if matrix.numel() else 0.0
    if scale == 0.0:
        return np.zeros(rank)
    # Scaling keeps squares of the tiniest and largest float64 values in range.
    return _of_tall(matrix / scale).cpu().numpy() * scale


def _all_finite(x: Tensor) -> bool:
    # NaN and Inf survive a sum; float64 sums of finite float32 values cannot overflow, so one pass settles most cases.
    return bool(torch.isfinite(x.sum(dtype=torch.float64))) or bool(torch.isfinite(x).all())


def _of_tall(matrix: Tensor) -> Tensor:
    """Return the singular values of a finite float64 matrix with at least as many rows as columns."""
    squares: Tensor = torch.linalg.eigvalsh(matrix.T @ matrix).flip(0)
    if squares[-1] > _GRAM_TRUSTED * squares[0]:
        return squares.sqrt()
    values: Tensor
    triangle = torch.linalg.qr(matrix, mode="r").R
    try:
        values = torch.linalg.svdvals(triangle)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # torch forgets to export it to type checkers
        values = _by_embedding(triangle)
    return values


def _by_embedding(matrix: Tensor) -> Tensor:
    """Return singular values as the upper half of the eigenvalues of [[0, M], [Mᵀ, 0]], by another LAPACK driver.

    Slower and good to 1e-16 σ₁ in the small values, but the symmetric QL iteration converges where the bidiagonal one
    gave up.
    """
    m, n = matrix.shape
    embedding = torch.zeros(m + n, m + n, dtype=matrix.dtype, device=matrix.device)
    embedding[:m, m:] = matrix
    embedding[m:, :m] = matrix.T
    values: Tensor = torch.linalg.eigvalsh(embedding).flip(0)[:n].clamp(min=0.0)
    return values
