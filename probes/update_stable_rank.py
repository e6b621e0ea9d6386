"""In how many directions a tensor has moved, compared with the strongest one."""

from __future__ import annotations

from grpodyn.probe import FloatArray, Need, SpectralProbe
from grpodyn.spectra import ranks


class UpdateStableRank(SpectralProbe):
    """Stable rank of W_t − W_{t−1}, its squared Frobenius norm over its squared spectral norm."""

    name = "update_stable_rank"
    title = "Stable rank of W_t − W_{t−1}, its squared Frobenius norm over its squared spectral norm"
    dims = ("row", "tensor")
    needs = frozenset({Need.STEP})
    reference = "‖·‖_F²/‖·‖₂²; Rudelson & Vershynin 2007 (J. ACM 54, 4), section 1"

    def compute(self, singular_values: FloatArray) -> float:
        """Return the rank, unit 1; 0 of a zero matrix, nan of values that are not finite."""
        return ranks.stable_rank(singular_values)
