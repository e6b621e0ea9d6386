"""Which part of each step survives rounding to the storage dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root_ratio

if TYPE_CHECKING:
    import torch


class UpdateAppliedFraction(TensorProbe):
    """Norm of the stored step over the norm of the step the optimizer meant."""

    name = "update_applied_fraction"
    title = "Norm of the stored step over the norm of the step the optimizer meant"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.INTENDED_STEP, Need.STEP})
    reference = (
        "‖W_t − W_{t−1}‖_F / ‖ΔW‖_F, ΔW before rounding to the storage dtype: under 1 where rounding swallows it, over "
        "1 where it rounds up; Zamirai et al. 2020 (arXiv 2010.06192)"
    )

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖W_t − W_{t−1}‖_F² as stored and ‖ΔW‖_F² as intended, unit 1."""
        return sample.squared_norm(Need.STEP), sample.squared_norm(Need.INTENDED_STEP)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖W_t − W_{t−1}‖_F / ‖ΔW‖_F, unit 1, of each tensor; nan where no step was meant."""
        stored, intended = sums
        return root_ratio(stored, intended)
