"""A forward beside the training's own: without gradients, in evaluation mode, and leaving everything as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@torch.no_grad()
def plain_forward(model: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    """Run a model on some token ids with their mask; what it returns is taken by hooks.

    No generator of random numbers moves on, every module goes back into its own mode, and parameters that FSDP has
    gathered are split again: an update after this would not reach the gathered copies.
    """
    with _evaluating(model), _unchanged_generators(inputs["input_ids"].device):
        try:
            model(**inputs, use_cache=False)
        finally:
            _split_again(model)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode, and each back into its own: `train()` of some does more than that."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def _unchanged_generators(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else [], device_type="cuda"):
        yield


def _split_again(model: nn.Module) -> None:
    # FSDP keeps the outermost module's parameters gathered after a forward, for the backward that follows it.
    for module in model.modules():
        handle = getattr(module, "_handle", None)
        if handle is not None and getattr(handle, "uses_sharded_strategy", False):
            # Only `FullyShardedDataParallel` has a handle, and then this exists.
            from torch.distributed.fsdp._runtime_utils import _reshard  # noqa: PLC0415  # see above

            _reshard(module, handle, True)
        elif hasattr(module, "reshard") and hasattr(module, "unshard"):
            split: Any = module
            split.reshard()
