"""How many elements of each tensor a step changes at all: bf16 storage swallows small steps whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import counted_share

if TYPE_CHECKING:
    import torch


class UpdateChangedFraction(TensorProbe):
    """Share of a tensor's elements whose stored bits a step changes."""

    name = "update_changed_fraction"
    title = "Share of a tensor's elements whose stored bits a step changes"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.CHANGED_BY_STEP, Need.ELEMENTS, Need.STEP})
    reference = "|{i: w_t ≠ w_{t−1}}| / n in the storage dtype; 1 − sparsity (arXiv 2505.11711) of a single step"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return the changed elements, all elements, and ‖W_t − W_{t−1}‖_F², unit 1."""
        return (
            sample.count(Need.CHANGED_BY_STEP),
            sample.count(Need.ELEMENTS),
            sample.squared_norm(Need.STEP),
        )

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return changed/all, unit 1, of each tensor; nan where the step holds NaN or Inf."""
        return counted_share(*sums)
