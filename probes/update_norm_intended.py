"""How far the optimizer means to move each tensor; above `update_norm` where bf16 storage swallows the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root

if TYPE_CHECKING:
    import torch


class UpdateNormIntended(TensorProbe):
    """Norm of the optimizer's step before it is rounded to the storage dtype."""

    name = "update_norm_intended"
    title = "Norm of the optimizer's step before it is rounded to the storage dtype"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.INTENDED_STEP})
    reference = "‖ΔW‖_F of Loshchilov & Hutter 2019 (arXiv 1711.05101), algorithm 2, line 12"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖ΔW‖_F² of the intended step, unit 1."""
        return (sample.squared_norm(Need.INTENDED_STEP),)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖ΔW‖_F of the intended step, unit 1, of each tensor."""
        (squares,) = sums
        return root(squares)
