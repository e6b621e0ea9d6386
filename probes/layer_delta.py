"""How far each layer is from where the run began, as a share of its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import root_ratio

if TYPE_CHECKING:
    import torch


class LayerDelta(TensorProbe):
    """Net displacement of a layer over the norm of its initial weights."""

    name = "layer_delta"
    title = "Net displacement of a layer over the norm of its initial weights"
    group = "layers"
    dims = ("row", "layer")
    needs = frozenset({Need.DELTA, Need.BASE_WEIGHT})
    reference = "√(Σ‖W_t − W_0‖_F²) / √(Σ‖W_0‖_F²) over the tensors of a layer; WDisp of arXiv 2609.39321"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖W_t − W_0‖_F² and ‖W_0‖_F² of one tensor of the layer, unit 1."""
        return sample.squared_norm(Need.DELTA), sample.squared_norm(Need.BASE_WEIGHT)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return √(Σ‖W_t − W_0‖_F²) / √(Σ‖W_0‖_F²), unit 1, of each layer; nan where the weight is 0."""
        moved, weight = sums
        return root_ratio(moved, weight)
