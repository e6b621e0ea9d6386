"""How strongly the loss pulls at each tensor, after clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root

if TYPE_CHECKING:
    import torch


class GradNorm(TensorProbe):
    """Norm of the accumulated gradient that the optimizer is given."""

    name = "grad_norm"
    title = "Norm of the accumulated gradient that the optimizer is given"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.GRADIENT})
    reference = "‖g‖_F; Pascanu, Mikolov & Bengio 2013 (arXiv 1211.5063), algorithm 1, per tensor and after clipping"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖g‖_F², unit 1."""
        return (sample.squared_norm(Need.GRADIENT),)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖g‖_F, unit 1, of each tensor."""
        (squares,) = sums
        return root(squares)
