"""Parameters that DeepSpeed ZeRO-3 has partitioned: each rank holds a range of the flattened tensor.

Nothing here has run on DeepSpeed itself, only against stand-ins that do what its sources do. So each partition is held
against the whole that `deepspeed.zero.GatheredParameters` gives before anything is read from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.naming.boxes import Box


def is_partitioned(tensor: Tensor) -> bool:
    """Return whether a parameter's values are in its partition: the parameter itself may be empty at any time."""
    return getattr(tensor, "ds_tensor", None) is not None and _zero() is not None


def partition(tensor: Tensor) -> Tensor:
    """Return this rank's elements of a partitioned parameter, without padding."""
    return _held(tensor)[: _range(tensor)[1]]


def partitions(model: nn.Module) -> Iterator[tuple[int, tuple[int, ...], Box]]:
    """Yield id, whole shape and place of the partition of every parameter whose elements are split among all ranks."""
    if _zero() is None:
        return
    for parameter in model.parameters():
        if is_partitioned(parameter) and obstacle(parameter) is None:
            shape = tuple(parameter.ds_shape)  # type: ignore[attr-defined]  # DeepSpeed's own
            start, size = _range(parameter)
            yield id(parameter), shape, Box((prod(shape),), (start,), (size,))


def obstacle(parameter: Tensor) -> str | None:
    """Return why a partitioned parameter cannot be read from its partitions, or None."""
    own: Any = parameter
    shape = f"{tuple(parameter.shape)} of {tuple(own.ds_shape)}"
    if _zero() is None:
        return f"sharded by DeepSpeed ZeRO-3: this rank holds {shape}, and deepspeed is not there to gather it"
    if getattr(own.ds_tensor, "ds_quant_scale", None) is not None:
        return "partitioned by DeepSpeed ZeRO-3 as codes"
    # Not this rank's own range: all ranks have to say the same.
    if own.ds_tensor.numel() < int(getattr(own.ds_tensor, "ds_numel", 0)):
        return "partitioned by DeepSpeed ZeRO-3 and held outside of memory (NVMe)"
    group = getattr(own, "ds_process_group", None)
    if group is not None and torch.distributed.get_world_size(group) != torch.distributed.get_world_size():
        return "partitioned by DeepSpeed ZeRO-3 within a group of some ranks"
    return None


def confirm(model: nn.Module) -> str | None:
    """Return why the partitions are not what they are taken for, or None. Every rank calls it, at the same time.

    DeepSpeed gathers one parameter after the other, and each rank compares.
    """
    zero, wrong = _zero(), []
    for name, parameter in model.named_parameters() if zero is not None else ():
        if not is_partitioned(parameter) or obstacle(parameter) is not None:
            continue
        start, size = _range(parameter)
        with zero.GatheredParameters([parameter], modifier_rank=None), torch.no_grad():
            # A rank that finds a difference goes on: the others gather the next parameter with it.
            whole = parameter.detach().reshape(-1)[start : start + size]
            if not torch.equal(whole, partition(parameter).to(whole.device)):
                wrong.append(name)
    return f"the ZeRO-3 partition of {wrong[0]} is not that range of the gathered parameter" if wrong else None


def _range(tensor: Tensor) -> tuple[int, int]:
    """Return the first element of this rank's partition, and how many there are without padding."""
    own: Any = tensor
    padded = int(getattr(own.ds_tensor, "ds_numel", own.ds_tensor.numel()))
    start = padded * torch.distributed.get_rank()
    numel = prod(own.ds_shape)
    return min(start, numel), max(0, min(padded, numel - start))


def _held(tensor: Tensor) -> Tensor:
    own: Any = tensor
    held: Tensor = own.ds_tensor
    return held.detach().reshape(-1)


def _zero() -> Any:
    """Return `deepspeed.zero` where the training has imported it."""
    return getattr(sys.modules.get("deepspeed"), "zero", None)
