"""Forwards of a model that is split among ranks: each layer's parameters are gathered by all of them, or by none."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from grpodyn.recording.boundary import Boundary
from grpodyn.recording.plain_forward import plain_forward
from grpodyn.recording.ranks import Ranks, Task

_NAMES = ("input_ids", "attention_mask")


def ask_forward(ranks: Ranks, inputs: Mapping[str, Tensor]) -> bool:
    """Let the other ranks run the model on the inputs that the first one is about to; return whether they do."""
    packed = torch.stack([inputs[name] for name in _NAMES]).cpu()
    return ranks.tell(Task.FORWARD, *packed.shape[1:]) and ranks.share(packed)


def join_forward(ranks: Ranks, boundary: Boundary, model: nn.Module, rows: int, tokens: int) -> None:
    """Run the model on the inputs that the first rank has."""
    packed = torch.zeros((len(_NAMES), rows, tokens), dtype=torch.int64)
    if ranks.share(packed):
        device = next(model.parameters()).device
        inputs = dict(zip(_NAMES, packed.to(device), strict=True))
        boundary.run("forward", plain_forward, model, inputs)
