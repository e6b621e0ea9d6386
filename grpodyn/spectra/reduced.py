"""Small square matrices that stand for a tall one, in float64 and bounded memory: its Gram matrix, its triangle.

Both are summed up over pieces of the rows, so that a large matrix has no float64 copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor

# A Gram matrix squares the condition: its eigenvalues carry an error of about 1e-15 λ_max, so at this ratio the
# smallest singular value still has five good digits, and larger ones more.
GRAM_TRUSTED = 1e-10
# Bounds the float64 copy of a large matrix (8 bytes an element).
_PIECE = 1 << 20
# The Gram matrix is symmetric: column blocks of this width compute little more than its upper half.
_COLUMNS = 128


def pieces(matrix: Float[Tensor, "m n"], rows: int | None = None) -> Iterator[tuple[slice, Float64[Tensor, "p n"]]]:
    """Yield the rows of a matrix piece by piece, widened to float64, each with its place.

    Args:
        matrix: shape (m, n).
        rows: rows at a time; what a piece of bounded size has if not given.
    """
    size = rows or max(1, _PIECE // max(1, matrix.shape[1]))
    for start in range(0, matrix.shape[0], size):
        place = slice(start, min(start + size, matrix.shape[0]))
        yield place, matrix[place].double()


def add_gram(gram: Float64[Tensor, "n n"], rows: Float64[Tensor, "p n"]) -> None:
    """Add RᵀR of some rows to a matrix; the blocks below the diagonal are left alone."""
    for start in range(0, gram.shape[0], _COLUMNS):
        stop = start + _COLUMNS
        gram[start:stop, start:].addmm_(rows[:, start:stop].T, rows[:, start:])


def gram_upper(matrix: Float[Tensor, "m n"]) -> Float64[Tensor, "n n"]:
    """Return MᵀM in float64, shape (n, n); the blocks below the diagonal stay 0."""
    n = matrix.shape[1]
    gram = torch.zeros(n, n, dtype=torch.float64, device=matrix.device)
    for _, rows in pieces(matrix):
        add_gram(gram, rows)
    return gram


def triangle(matrix: Float[Tensor, "m n"]) -> Float64[Tensor, "n n"]:
    """Return R of M = QR in float64, shape (n, n), piece by piece: the QR of [R; next rows] has the same R."""
    n = matrix.shape[1]
    reduced = torch.zeros(0, n, dtype=torch.float64, device=matrix.device)
    # Four times the height of R, so that factorising R again costs little.
    for _, rows in pieces(matrix, max(4 * n, _PIECE // n)):
        reduced = torch.linalg.qr(torch.cat([reduced, rows]), mode="r").R
    return reduced
