"""In how many directions a tensor has moved, every direction counting by its share of Σσ."""

from __future__ import annotations

from grpodyn.probe import FloatArray, Need, SpectralProbe
from grpodyn.spectra import ranks


class UpdateEffectiveRank(SpectralProbe):
    """Effective rank of W_t − W_{t−1}, the exponential of the entropy of its singular values."""

    name = "update_effective_rank"
    title = "Effective rank of W_t − W_{t−1}, the exponential of the entropy of its singular values"
    dims = ("row", "tensor")
    needs = frozenset({Need.STEP})
    reference = "exp(−Σ p ln p), p = σ/Σσ; Roy & Vetterli 2007 (EUSIPCO), definition 1"

    def compute(self, singular_values: FloatArray) -> float:
        """Return the rank, unit 1; 0 of a zero matrix, nan of values that are not finite."""
        return ranks.effective_rank(singular_values)
