"""How far each block's output on fixed prompts has moved: what the weights' changes do to what the model computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.probe import ActivationProbe, FloatArray, Need, Sample
from grpodyn.spectra.sums import root_ratio

if TYPE_CHECKING:
    import torch


class ActivationShift(ActivationProbe):
    """Shift of a block's output on fixed prompts over its norm at the start."""

    name = "activation_shift"
    title = "Shift of a block's output on fixed prompts over its norm at the start"
    dims = ("row", "layer")
    reference = "√(Σ m‖h − h_0‖²) / √(Σ m‖h_0‖²) over tokens, m masks padding; Shift_l of arXiv 2609.39321"

    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return Σ‖h − h_0‖² and Σ‖h_0‖² over the tokens of a block, unit 1."""
        return sample.squared_norm(Need.ACTIVATION_SHIFT), sample.squared_norm(Need.START_ACTIVATION)

    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return √(Σ‖h − h_0‖²) / √(Σ‖h_0‖²), unit 1, of each layer; nan where h_0 is 0."""
        moved, start = sums
        return root_ratio(moved, start)
