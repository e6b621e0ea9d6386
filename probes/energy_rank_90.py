"""How many directions hold nine tenths of the square of a tensor's movement; robust to small rounding noise."""

from __future__ import annotations

from grpodyn.probe import FloatArray, SpectralProbe
from grpodyn.spectra import ranks


class EnergyRank90(SpectralProbe):
    """Fewest singular values of W_t − W_0 that hold 90 % of its squared norm."""

    name = "energy_rank_90"
    title = "Fewest singular values of W_t − W_0 that hold 90 % of its squared norm"
    dims = ("row", "tensor")
    reference = "min k with Σ_{i≤k} σ_i² ≥ 0.9 Σσ²; Jolliffe 2002 (Principal Component Analysis), section 6.1.1"

    def compute(self, singular_values: FloatArray) -> float:
        """Return the rank, unit 1; 0 of a zero matrix, nan of values that are not finite."""
        return ranks.energy_rank(singular_values, 0.9)
