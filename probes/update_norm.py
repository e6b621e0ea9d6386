"""How far each tensor moves in one optimizer step, in the numbers that are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root

if TYPE_CHECKING:
    import torch


class UpdateNorm(TensorProbe):
    """Norm of the step that a tensor takes, as stored."""

    name = "update_norm"
    title = "Norm of the step that a tensor takes, as stored"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.STEP})
    reference = "‖W_t − W_{t−1}‖_F, whose sum over t is the length of the path"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖W_t − W_{t−1}‖_F², unit 1."""
        return (sample.squared_norm(Need.STEP),)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖W_t − W_{t−1}‖_F, unit 1, of each tensor."""
        (squares,) = sums
        return root(squares)
