"""Whether training changes the elements that carry a weight's leading directions, or the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from grpodyn.probe import SpectralChangeProbe
from grpodyn.spectra.spectral_change import LEADING, PRINCIPAL_SHARE

if TYPE_CHECKING:
    from grpodyn.spectra.spectral_change import SpectralChange


class PrincipalOverlap(SpectralChangeProbe):
    """Share of a weight's changed elements that are principal ones; α if changes fall anywhere."""

    name = "principal_overlap"
    title = "Share of a weight's changed elements that are principal ones; α if changes fall anywhere"
    dims = ("row", "tensor")
    constants: ClassVar[Mapping[str, float]] = {"k": LEADING, "alpha": PRINCIPAL_SHARE, "tolerance": 1e-3}
    reference = (
        "|M_princ ∩ M| / |M|, M_princ the largest α of |W_0 of rank k|, M as in "
        "`delta_changed_fraction`; Zhu et al. 2025 (arXiv 2511.08567)"
    )

    def compute(self, change: SpectralChange) -> float:
        """Return the share of the changed elements, unit 1; nan where none has changed."""
        return change.changed_principal / change.changed if change.changed else np.nan
