"""Singular values of a matrix of a few large directions over a low floor, such as a low-rank delta after rounding.

The Gram matrix of such a delta loses the floor, and a QR is slow. A sketch finds the large directions, they are taken
out in float64, and the Gram matrix of what is left has only the floor to resolve. Whether the two parts together have
the singular values of the whole is not hoped but computed: the part that couples them bounds the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from grpodyn.spectra.reduced import GRAM_TRUSTED, add_gram, pieces

_DIRECTIONS = 32
"""Directions that are sketched: a rank up to somewhat less is found."""
_SMALLEST_SIDE = 64
"""Narrower matrices are decomposed faster than they are sketched."""
_GAP = 100.0
"""The floor begins where a singular value is less than the one before by this factor."""
_TOLERANCE = 1e-6
"""Relative error that the coupling may make in any singular value."""
_RESOLVED = 1e-10
"""Share of the largest singular value under which values are rounding: float64 `svdvals` itself does no better."""
_SEED = 20240503


@dataclass(frozen=True)
class Split:
    """A matrix M as (U S Vᵀ) + F, but for a coupling Uᵀ M (1 − V Vᵀ) between them, whose norm is known."""

    left: Float64[Tensor, "m r"]
    """U, orthonormal."""
    right: Float64[Tensor, "n r"]
    """V, orthonormal."""
    values: Float64[Tensor, " r"]
    """Singular values of S, descending."""
    coupling: Float64[Tensor, "r n"]

    def error(self, floor: float) -> float:
        """Return the most that any singular value is off if the coupling is left out.

        Args:
            floor: the largest singular value of F.

        Reference: Li & Li 2005 (Linear Algebra Appl. 395), theorem 2, of a 2×2 block perturbation.
        """
        size = float(torch.linalg.matrix_norm(self.coupling))
        gap = float(self.values[-1]) - floor
        return 2 * size**2 / (gap + (gap**2 + 4 * size**2) ** 0.5) if gap > 0.0 else size

    def remainder(self, place: slice, rows: Float64[Tensor, "p n"]) -> Float64[Tensor, "p n"]:
        """Return the rows of F = (1 − U Uᵀ) M (1 − V Vᵀ) at a place, given those of M."""
        rest = torch.addmm(rows, rows @ self.right, self.right.T, alpha=-1)
        return rest.addmm_(self.left[place], self.coupling, alpha=-1)


def split(matrix: Float[Tensor, "m n"]) -> Split | None:
    """Return the large directions of a finite matrix with m ≥ n, apart from a floor under them; None if there is none.

    Reference: Halko, Martinsson & Tropp 2011 (SIAM Review 53), algorithm 4.4, with the seed fixed.
    """
    if matrix.shape[1] < _SMALLEST_SIDE or matrix.dtype not in (torch.float32, torch.float64):
        return None
    right = _sketch(matrix)
    if right is None:
        return None
    # What float32 found is good to seven digits: a pass in float64 makes them fourteen.
    right = torch.linalg.qr(right).Q
    right = torch.linalg.qr(reduce(torch.add, (rows.T @ (rows @ right) for _, rows in pieces(matrix)))).Q
    left, core = torch.linalg.qr(torch.cat([rows @ right for _, rows in pieces(matrix)]))
    coupling = reduce(torch.add, (left[place].T @ rows for place, rows in pieces(matrix))) - core @ right.T
    return Split(left, right, torch.linalg.svdvals(core), coupling)


def deflated_values(matrix: Float[Tensor, "m n"]) -> Float64[Tensor, " n"] | None:
    """Return all singular values of a finite matrix with m ≥ n by taking its large directions out.

    Args:
        matrix: shape (m, n).

    Returns:
        Descending; None where the matrix has no large directions over a floor, or the floor cannot be resolved.
    """
    parts = split(matrix)
    if parts is None:
        return None
    n, rank = matrix.shape[1], parts.right.shape[1]
    gram = torch.zeros(n, n, dtype=torch.float64, device=matrix.device)
    for place, rows in pieces(matrix):
        add_gram(gram, parts.remainder(place, rows))
    # The directions that were taken out are zeros of this matrix.
    squares = torch.linalg.eigvalsh(gram, UPLO="U").flip(0)[: n - rank].clamp(min=0.0)
    floor, resolved = squares.sqrt(), _RESOLVED * float(parts.values[0])
    # Either every value of the floor is exact enough, or all that is not is rounding of the whole.
    if not (float(squares[-1]) > GRAM_TRUSTED * float(squares[0]) or float(floor[0]) * GRAM_TRUSTED**0.5 <= resolved):
        return None
    if parts.error(float(floor[0])) > _TOLERANCE * max(float(floor[-1]), resolved):
        return None
    return torch.cat([parts.values, floor])


def _sketch(matrix: Tensor) -> Tensor | None:
    """Return right directions above the largest gap, as the matrix's own precision finds them; None without a gap."""
    generator = torch.Generator().manual_seed(_SEED)
    probes = torch.randn(matrix.shape[1], _DIRECTIONS, generator=generator).to(matrix.device, matrix.dtype)
    image = matrix @ probes
    reduced = torch.linalg.qr(image).Q.T @ matrix if bool(image.isfinite().all()) else image
    if not bool(reduced.isfinite().all()):
        # Products of elements near the end of the float32 range.
        return None
    reduced = reduced.double()
    squares, turn = torch.linalg.eigh(reduced @ reduced.T)
    # Squares under float64's rounding are no values, and a gap among them is none.
    values = squares.flip(0).clamp(min=1e-15 * float(squares[-1])).sqrt()
    ratios = values[:-1] / values[1:]
    place = int(ratios.argmax())
    return (turn.flip(1)[:, : place + 1].T @ reduced).T if float(ratios[place]) >= _GAP else None
