"""What becomes of a weight's spectrum: its singular values before and after, and how far its leading spaces turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LEADING = 16
"""Singular directions that count as leading: the K of arXiv 2606.07082; arXiv 2511.08567 does not state its k."""
PRINCIPAL_SHARE = 0.5
"""Share α of a weight's elements that count as principal (arXiv 2511.08567)."""


@dataclass(frozen=True)
class SpectralChange:
    """A weight W_0 beside what training made of it, W_t."""

    before: FloatArray
    """All singular values of W_0, descending."""
    after: FloatArray
    """All singular values of W_t, descending."""
    angles_left: FloatArray
    """Principal angles between the leading left singular spaces, rad, ascending; nan where W_0 or W_t has no such
    space (its rank is lower, or the first value left out is as large as the last one taken)."""
    angles_right: FloatArray
    """The same of the right singular spaces."""
    changed: int
    """Elements with |w_t − w_0| > 10⁻³ max(|w_t|, |w_0|)."""
    changed_principal: int
    """Those of them that are among the `PRINCIPAL_SHARE` largest of |W_0 reduced to its leading directions|."""


def relative_shift(before: FloatArray, after: FloatArray) -> float:
    """Return ‖after − before‖₂ / ‖before‖₂ of two spectra; nan where the first is 0 or either is not finite.

    Reference: normalised spectral shift (NSS) of Zhu et al. 2025 (arXiv 2511.08567).

    >>> relative_shift(np.array([4.0, 3.0]), np.array([4.0, 3.5]))
    0.1
    """
    size = float(np.linalg.norm(before))
    shift = float(np.linalg.norm(np.asarray(after, dtype=np.float64) - before))
    return shift / size if size > 0.0 and np.isfinite(size) and np.isfinite(shift) else float("nan")


def largest_angle(change: SpectralChange) -> float:
    """Return the largest principal angle of the left and the right spaces, rad; nan where one is not known."""
    both = np.concatenate([change.angles_left, change.angles_right])
    return float(both.max()) if both.size else float("nan")
