"""Exact singular values of weight deltas, in bounded memory.

float64 eigenvalues of the Gram matrix where they are provably good enough, else a float64 QR and the singular values of
its triangle. The Gram way is several times as fast, and wrong on deltas of low rank: these have their large directions
taken out first.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from grpodyn.spectra.deflation import deflated_values
from grpodyn.spectra.lowrank import LowRank
from grpodyn.spectra.reduced import GRAM_TRUSTED, gram_upper, triangle

# Outside this range squares of float64 values underflow or overflow; no float32 matrix is.
_SMALLEST, _LARGEST = 1e-100, 1e100


def singular_values(x: Float[Tensor, "*shape"] | LowRank) -> NDArray[np.float64]:
    """Return all singular values of a matrix, within 1e-5 relative of float64 `svdvals`; deterministic.

    Values under 1e-10 of the largest are rounding in either, and only as small as in the other.

    Args:
        x: shape (m, n) of any floating dtype (a vector counts as (n, 1)), or the factors of such a matrix.

    Returns:
        float64, shape (min(m, n),), descending, in x's unit; of a stack of factors, one row per matrix. All nan if x
        holds NaN or Inf; zeros of a zero matrix.

    Raises:
        ValueError: x has more than two dimensions.

    Reference: Golub & Van Loan, Matrix Computations (4th ed.), sections 5.4.2 and 8.6.3.

    >>> singular_values(torch.tensor([[0.0, -3.0], [1.0, 0.0], [0.0, 0.0]]))
    array([3., 1.])
    """
    if isinstance(x, LowRank):
        finite = all(np.isfinite(_largest(factor)) for factor in (x.left, x.right))
        return x.singular_values().cpu().numpy() if finite else np.full((*x.shape[:-2], min(x.shape[-2:])), np.nan)
    if x.dim() > 2:
        raise ValueError(f"a matrix has two dimensions, this tensor {tuple(x.shape)}; pass one matrix of the stack")
    matrix = x.detach().reshape(-1, 1) if x.dim() < 2 else x.detach()
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    largest = _largest(matrix)
    if not np.isfinite(largest):
        return np.full(matrix.shape[1], np.nan)
    if largest == 0.0:
        return np.zeros(matrix.shape[1])
    if _SMALLEST < largest < _LARGEST:
        return _of_tall(matrix).cpu().numpy()
    return _of_tall(matrix / largest).cpu().numpy() * largest


def _largest(x: Tensor) -> float:
    """Return max |x|, 0 of an empty tensor; nan and inf come through."""
    if x.numel() == 0:
        return 0.0
    low, high = torch.aminmax(x.detach())
    return float(torch.maximum(-low, high))


def _of_tall(matrix: Float[Tensor, "m n"]) -> Float64[Tensor, " n"]:
    """Return the singular values of a finite matrix with at least as many rows as columns."""
    values = deflated_values(matrix)
    if values is not None:
        return values
    squares: Tensor = torch.linalg.eigvalsh(gram_upper(matrix), UPLO="U").flip(0)
    if squares[-1] > GRAM_TRUSTED * squares[0]:
        return squares.sqrt()
    reduced = triangle(matrix)
    try:
        values = torch.linalg.svdvals(reduced)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # torch does not export it to type checkers
        values = _by_embedding(reduced)
    return values


def _by_embedding(matrix: Tensor) -> Tensor:
    """Return singular values as the upper half of the eigenvalues of [[0, M], [Mᵀ, 0]], by another LAPACK driver.

    Slower, and the small values are only good to 1e-16 σ₁; but the symmetric QL iteration converges where the
    bidiagonal one gave up.
    """
    m, n = matrix.shape
    embedding = torch.zeros(m + n, m + n, dtype=matrix.dtype, device=matrix.device)
    embedding[:m, m:] = matrix
    embedding[m:, :m] = matrix.T
    values: Tensor = torch.linalg.eigvalsh(embedding).flip(0)[:n].clamp(min=0.0)
    return values
