"""How many elements of each tensor have moved since the run began, beyond what rounding to bf16 does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import counted_share

if TYPE_CHECKING:
    import torch


class DeltaChangedFraction(TensorProbe):
    """Share of a tensor's elements that are noticeably off their start."""

    name = "delta_changed_fraction"
    title = "Share of a tensor's elements that are noticeably off their start"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.CHANGED_SINCE_START, Need.DELTA, Need.ELEMENTS})
    reference = "|{i: |w_t − w_0| > 10⁻³ max(|w_t|, |w_0|)}| / n; the update mask of Zhu et al. 2025 (arXiv 2511.08567)"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return the changed elements, all elements, and ‖W_t − W_0‖_F², unit 1."""
        return (
            sample.count(Need.CHANGED_SINCE_START),
            sample.count(Need.ELEMENTS),
            sample.squared_norm(Need.DELTA),
        )

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return changed/all, unit 1, of each tensor; nan where the displacement holds NaN or Inf."""
        return counted_share(*sums)
