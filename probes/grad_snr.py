"""Whether the gradients of successive steps agree: what is common to them, against what differs from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import FloatArray, Need, Sample, TensorProbe
from grpodyn.spectra.sums import share

if TYPE_CHECKING:
    import torch


class GradSnr(TensorProbe):
    """Signal-to-noise ratio of the gradient over the steps since the last value."""

    name = "grad_snr"
    title = "Signal-to-noise ratio of the gradient over the steps since the last value"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({Need.GRADIENT_SIGNAL, Need.GRADIENT_NOISE})
    reference = (
        "‖E g‖² / E‖g − E g‖², unbiased estimates from sampled elements (under 0 where there is no signal): 1/B_simple "
        "of McCandlish et al. 2018 (arXiv 1812.06162), per step"
    )

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return ‖E g‖² and E‖g − E g‖² over the window, unit 1."""
        return sample.squared_norm(Need.GRADIENT_SIGNAL), sample.squared_norm(Need.GRADIENT_NOISE)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return ‖E g‖² / E‖g − E g‖², unit 1, of each tensor; nan where the gradient did not differ."""
        signal, noise = sums
        return share(signal, noise)
