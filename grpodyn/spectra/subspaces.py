"""Leading singular spaces of a weight before and after training, and how they lie to each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from grpodyn.spectra.changes import noticeably_different
from grpodyn.spectra.reduced import GRAM_TRUSTED, gram_upper, triangle
from grpodyn.spectra.spectral_change import LEADING, PRINCIPAL_SHARE, SpectralChange

# Singular values closer than this share of the largest are one value to float64: their spaces are any basis of it.
_DISTINCT = 1e-12


@dataclass(frozen=True)
class Leading:
    """All singular values of a matrix, and its leading singular vectors."""

    values: Float64[Tensor, " n"]
    """Descending."""
    left: Float64[Tensor, "rows k"]
    right: Float64[Tensor, "cols k"]

    @property
    def is_determined(self) -> bool:
        """Whether there is one leading space: the last value taken is above 0, and above the first one left out."""
        k = self.left.shape[1]
        if k == 0:
            return False
        last = float(self.values[k - 1])
        first_left_out = float(self.values[k]) if k < len(self.values) else 0.0
        return last - first_left_out > _DISTINCT * float(self.values[0])


def leading(matrix: Float[Tensor, "rows cols"], k: int) -> Leading:
    """Return the singular values of a finite matrix and its k leading singular vectors (fewer if it is smaller).

    From the eigenvectors of the smaller Gram matrix in float64, or of the triangle of a QR where that would lose
    digits (as `singular_values` does).

    Reference: Golub & Van Loan, Matrix Computations (4th ed.), section 8.6.

    >>> leading(torch.tensor([[0.0, -3.0], [1.0, 0.0], [0.0, 0.0]]), 1).left.abs().T
    tensor([[1., 0., 0.]], dtype=torch.float64)
    """
    wide = matrix.shape[0] < matrix.shape[1]
    tall = matrix.T if wide else matrix
    k = min(k, tall.shape[1])
    squares, vectors = torch.linalg.eigh(gram_upper(tall), UPLO="U")
    squares, vectors = squares.flip(0), vectors.flip(1)
    if squares.numel() and squares[-1] > GRAM_TRUSTED * squares[0]:
        values = squares.sqrt()
    else:
        _, values, adjoint = torch.linalg.svd(triangle(tall), full_matrices=False)
        vectors = adjoint.T
    right = vectors[:, :k]
    # A basis of the image; what QR adds where the rank is lower than k belongs to no space, which is_determined says.
    left = torch.linalg.qr(tall.double() @ right).Q
    return Leading(values, right, left) if wide else Leading(values, left, right)


def principal_angles(a: Float64[Tensor, "n k"], b: Float64[Tensor, "n k"]) -> NDArray[np.float64]:
    """Return the principal angles between the spaces of two orthonormal bases, rad, ascending.

    From cosines and sines together, so that neither small nor right angles lose digits.

    Reference: Björck & Golub 1973 (Math. Comp. 27); Knyazev & Argentati 2002 (SIAM J. Sci. Comput. 23).

    >>> principal_angles(torch.eye(3, 1).double(), torch.tensor([[3.0], [4.0], [0.0]]).double() / 5).round(6)
    array([0.927295])
    """
    cosines = a.T @ b
    sines = torch.linalg.svdvals(b - a @ cosines).flip(0)
    angles: NDArray[np.float64] = torch.atan2(sines, torch.linalg.svdvals(cosines)).numpy()
    return angles


def compare(before: Float[Tensor, "rows cols"], after: Float[Tensor, "rows cols"], k: int = LEADING) -> SpectralChange:
    """Return how a weight's spectrum, its leading spaces and its principal elements have changed.

    Args:
        before: W_0.
        after: W_t, of the same shape.
        k: leading directions; all of them of a smaller matrix.

    Returns:
        All values nan, and nothing counted as changed, if either matrix holds NaN or Inf.

    Reference: Zhu et al. 2025 (arXiv 2511.08567): NSS, principal angles, overlap with the principal mask.
    """
    size, kept = min(before.shape), min(k, *before.shape)
    if not bool(torch.isfinite(before).all() & torch.isfinite(after).all()):
        nothing, none = np.full(size, np.nan), np.full(kept, np.nan)
        return SpectralChange(nothing, nothing, none, none, 0, 0)
    start, now = leading(before, k), leading(after, k)
    angles = [np.full(kept, np.nan)] * 2
    if start.is_determined and now.is_determined:
        angles = [principal_angles(start.left, now.left), principal_angles(start.right, now.right)]
    changed = noticeably_different(after, before)
    return SpectralChange(
        before=start.values.numpy(),
        after=now.values.numpy(),
        angles_left=angles[0],
        angles_right=angles[1],
        changed=int(torch.count_nonzero(changed)),
        changed_principal=int(torch.count_nonzero(changed & principal_mask(before, start))),
    )


def principal_mask(weight: Float[Tensor, "rows cols"], known: Leading, share: float = PRINCIPAL_SHARE) -> Tensor:
    """Return which elements are among the largest `share` of |W reduced to its leading directions|.

    Args:
        weight: W, shape (rows, cols).
        known: its leading singular vectors.
        share: share of the elements, rounded down to a whole number of them.

    Returns:
        bool, shape (rows, cols). Of elements that are equal to the smallest one taken, all are taken.
    """
    # U_k U_kᵀ W is the best rank-k approximation, whichever way round the vectors were found.
    reduced = (known.left @ (known.left.T @ weight.double())).abs()
    elements = reduced.numel()
    taken = int(share * elements)
    if taken == 0:
        return torch.zeros_like(reduced, dtype=torch.bool)
    threshold = reduced.reshape(-1).kthvalue(elements - taken + 1).values
    return reduced >= threshold
