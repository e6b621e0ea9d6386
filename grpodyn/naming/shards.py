"""Parameters that are split among ranks: which part is here, what the whole is, and whether the parts may be added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.naming.boxes import Box
from grpodyn.naming.zero3 import is_partitioned, partition, partitions


@dataclass(frozen=True)
class Share:
    """This rank's part of a parameter that is split among all ranks."""

    shape: tuple[int, ...]
    """Shape of the whole parameter."""
    counted: bool
    """Whether the part counts: of parts that several ranks hold alike, one does."""
    box: Box | None = None
    """Where the part lies in the whole; None where that is not known, so that the whole cannot be put together."""


def local(tensor: Tensor) -> Tensor:
    """Return the values of a tensor that this rank holds: a part of a DTensor or of a ZeRO-3 parameter, else all."""
    if is_partitioned(tensor):
        return partition(tensor)
    if not hasattr(tensor, "to_local"):
        return tensor
    with torch.no_grad():
        part: Tensor = tensor.to_local()
    return part


def shares(model: nn.Module) -> dict[int, Share]:
    """Return what this rank holds of each split parameter by its id, if adding the parts of all ranks gives the whole.

    That holds for DTensors whose mesh is all ranks, sharded or repeated in each of its dimensions (`fully_shard`), for
    `FullyShardedDataParallel` with `use_orig_params` over all ranks, and for DeepSpeed ZeRO-3.
    """
    by_zero = {key: Share(shape, counted=True, box=box) for key, shape, box in partitions(model)}
    return dict(_of_dtensors(model)) | dict(_of_flat_parameters(model)) | by_zero


def whole_shape(tensor: Tensor, split: Mapping[int, Share]) -> tuple[int, ...]:
    """Return the shape of a whole parameter, of which this rank may hold a part."""
    share = split.get(id(tensor))
    return tuple(tensor.shape) if share is None else share.shape


def counts(share: Share, tensor: Tensor) -> bool:
    """Return whether this rank has something of a split parameter to add to what the others have."""
    return share.counted and local(tensor).numel() > 0


def full_sizes(model: nn.Module) -> Iterator[tuple[nn.Parameter, int]]:
    """Yield each parameter with the number of elements of the whole."""
    split = shares(model)
    for parameter in model.parameters():
        share = split.get(id(parameter))
        yield parameter, parameter.numel() if share is None else prod(share.shape)


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
        yield id(parameter), Share(tuple(parameter.shape), counted, _box_of(split))


def _box_of(split: Any) -> Box | None:
    """Return where the local part of a DTensor lies."""
    # Only where tensors are split has this been imported already: it takes a second.
    from torch.distributed.tensor import Replicate, Shard  # noqa: PLC0415  # see above
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset  # noqa: PLC0415  # see above

    # Exact types: a strided shard (tensor parallelism under FSDP) is no box of the whole.
    if any(type(placement) not in (Shard, Replicate) for placement in split.placements):
        return None
    shape, start = compute_local_shape_and_global_offset(split.shape, split.device_mesh, split.placements)
    if tuple(shape) != tuple(local(split).shape):
        return None
    return Box(tuple(split.shape), tuple(start), tuple(shape))


def _of_flat_parameters(model: nn.Module) -> Iterator[tuple[int, Share]]:
    for module in model.modules():
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        originals = getattr(flat, "_params", None)
        if handle is None or flat is None or originals is None or not handle.uses_sharded_strategy:
            continue
        # A hybrid strategy splits within a node only, and repeats the parts on every node.
        if handle.process_group.size() != torch.distributed.get_world_size():
            continue
        places = zip(originals, flat._shapes, flat._shard_param_infos, flat._contiguities, strict=True)
        for parameter, shape, info, is_contiguous in places:
            start = info.intra_param_start_idx if info.in_shard else 0
            size = info.numel_in_shard if info.in_shard else 0
            box = Box((prod(shape),), (start,), (size,)) if is_contiguous else None
            yield id(parameter), Share(tuple(shape), counted=True, box=box)
