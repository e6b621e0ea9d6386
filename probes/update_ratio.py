"""How far each tensor moves in one step, as a share of its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root_ratio

if TYPE_CHECKING:
    import torch


class UpdateRatio(TensorProbe):
    """Norm of the stored step over the norm of the weight before it."""

    name = "update_ratio"
    title = "Norm of the stored step over the norm of the weight before it"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.STEP, Need.PREVIOUS_WEIGHT})
    reference = "‖W_t − W_{t−1}‖_F / ‖W_{t−1}‖_F; You, Gitman & Ginsburg 2017 (arXiv 1708.03888), inverted"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖W_t − W_{t−1}‖_F² and ‖W_{t−1}‖_F², unit 1."""
        return sample.squared_norm(Need.STEP), sample.squared_norm(Need.PREVIOUS_WEIGHT)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖W_t − W_{t−1}‖_F / ‖W_{t−1}‖_F, unit 1, of each tensor; nan where the weight is 0."""
        moved, weight = sums
        return root_ratio(moved, weight)
