"""How far a weight's spectrum moves, whichever way its directions turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import SpectralChangeProbe
from grpodyn.spectra.spectral_change import relative_shift

if TYPE_CHECKING:
    from grpodyn.spectra.spectral_change import SpectralChange


class SpectralShift(SpectralChangeProbe):
    """Change of a weight's singular values over their norm at the start."""

    name = "spectral_shift"
    title = "Change of a weight's singular values over their norm at the start"
    dims = ("row", "tensor")
    reference = "NSS = ‖σ(W_t) − σ(W_0)‖₂ / ‖σ(W_0)‖₂; Zhu et al. 2025 (arXiv 2511.08567)"

    def compute(self, change: SpectralChange) -> float:
        """Return ‖σ(W_t) − σ(W_0)‖₂ / ‖σ(W_0)‖₂, unit 1; nan of a zero start."""
        return relative_shift(change.before, change.after)
