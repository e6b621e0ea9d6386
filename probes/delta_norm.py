"""How far each tensor is from where the run began; with the path length it says how straight the way was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root

if TYPE_CHECKING:
    import torch


class DeltaNorm(TensorProbe):
    """Net displacement of a tensor since the run began."""

    name = "delta_norm"
    title = "Net displacement of a tensor since the run began"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.DELTA})
    reference = "‖W_t − W_0‖_F; distance from initialisation, Nagarajan & Kolter 2017 (arXiv 1901.01672)"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖W_t − W_0‖_F², unit 1."""
        return (sample.squared_norm(Need.DELTA),)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖W_t − W_0‖_F, unit 1, of each tensor."""
        (squares,) = sums
        return root(squares)
