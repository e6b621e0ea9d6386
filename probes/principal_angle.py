"""How far the directions that a weight uses most turn away from where they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from grpodyn.probe import SpectralChangeProbe
from grpodyn.spectra.spectral_change import LEADING, largest_angle

if TYPE_CHECKING:
    from grpodyn.spectra.spectral_change import SpectralChange


class PrincipalAngle(SpectralChangeProbe):
    """Largest principal angle between a weight's leading singular spaces now and at the start."""

    name = "principal_angle"
    title = "Largest principal angle between a weight's leading singular spaces now and at the start"
    dims = ("row", "tensor")
    unit = "rad"
    constants: ClassVar[Mapping[str, float]] = {"k": LEADING}
    reference = "max θ_i with cos θ_i = σ_i(U_0,kᵀ U_t,k), and the same of V; Zhu et al. 2025 (arXiv 2511.08567)"

    def compute(self, change: SpectralChange) -> float:
        """Return the largest angle of left and right spaces, rad; nan where a weight has no k leading directions."""
        return largest_angle(change)
