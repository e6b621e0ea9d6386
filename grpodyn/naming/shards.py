"""Parameters that are split among ranks: which part is here, what the whole is, and whether the parts may be added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Share:
    """This rank's part of a parameter that is split among all ranks."""

    shape: tuple[int, ...]
    """Shape of the whole parameter."""
    counted: bool
    """Whether the part counts: of parts that several ranks hold alike, one does."""


def local(tensor: Tensor) -> Tensor:
    """Return the values of a tensor that this rank holds: a part of a DTensor, all of any other."""
    if not hasattr(tensor, "to_local"):
        return tensor
    with torch.no_grad():
        part: Tensor = tensor.to_local()
    return part


def shares(model: nn.Module) -> dict[int, Share]:
    """Return what this rank holds of each split parameter by its id, if adding the parts of all ranks gives the whole.

    That holds for DTensors whose mesh is all ranks, sharded or repeated in each of its dimensions (`fully_shard`), and
    for `FullyShardedDataParallel` with `use_orig_params` over all ranks.
    """
    return dict(_of_dtensors(model)) | dict(_of_flat_parameters(model))


def full_sizes(model: nn.Module) -> Iterator[tuple[nn.Parameter, int]]:
    """Yield each parameter with the number of elements of the whole."""
    split = shares(model)
    for parameter in model.parameters():
        share = split.get(id(parameter))
        yield parameter, parameter.numel() if share is None else torch.Size(share.shape).numel()


def _of_dtensors(model: nn.Module) -> Iterator[tuple[int, Share]]:
    for parameter in model.parameters():
        is_split = hasattr(parameter, "device_mesh") and hasattr(parameter, "to_local")
        if not is_split or parameter.is_meta or parameter.is_complex():
            continue
        split: Any = parameter
        mesh, placements = split.device_mesh, split.placements
        if mesh.size() != torch.distributed.get_world_size() or any(placement.is_partial() for placement in placements):
            continue
        coordinate = mesh.get_coordinate() or ()
        # Ranks that differ only along a dimension that repeats hold the same part.
        repeated = zip(placements, coordinate, strict=True)
        counted = all(place == 0 for placement, place in repeated if placement.is_replicate())
        yield id(parameter), Share(tuple(parameter.shape), counted)


def _of_flat_parameters(model: nn.Module) -> Iterator[tuple[int, Share]]:
    for module in model.modules():
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        originals = getattr(flat, "_params", None)
        if handle is None or flat is None or originals is None or not handle.uses_sharded_strategy:
            continue
        # A hybrid strategy splits within a node only, and repeats the parts on every node.
        if handle.process_group.size() == torch.distributed.get_world_size():
            for parameter, shape in zip(originals, flat._shapes, strict=True):
                yield id(parameter), Share(tuple(shape), counted=True)
