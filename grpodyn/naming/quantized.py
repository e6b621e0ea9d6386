"""Weights that are stored as codes: the numbers they stand for, where their layer tells, and never the codes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# Buffers that hold a layer's weight where the layer has no parameter of that name (GPTQ, AWQ, BitNet, HQQ).
CODED_BUFFERS = ("weight", "qweight", "W_q")
# Methods by which a layer gives its weight back: gptqmodel, HQQ.
_METHODS = ("dequantize_weight", "dequantize")
# What a layer keeps beside its codes; alone, it is no weight.
_HELPERS = ("scale", "zero", "absmax", "SCB", "g_idx", "shape")


@dataclass(frozen=True)
class Coded:
    """A weight that is stored as codes."""

    owner: nn.Module
    leaf: str
    """Its name in the owner."""
    why: str
    """What is stored, in words."""

    @property
    def is_known(self) -> bool:
        """Return whether its values can be had."""
        return self._method() is not None

    @torch.no_grad()
    def values(self) -> Tensor | None:
        """Return the numbers that the codes stand for, on the codes' device; None where the layer does not tell."""
        method = self._method()
        values: Tensor | None = None if method is None else method()
        return values

    def _method(self) -> Any:
        codes: Any = getattr(self.owner, self.leaf)
        kind = type(codes).__name__
        if _is_torchao(codes):
            return codes.dequantize
        state = getattr(codes, "quant_state", None)
        if kind == "Params4bit" and state is not None:
            return lambda: importlib.import_module("bitsandbytes").functional.dequantize_4bit(codes.data, state)
        if kind == "Int8Params":
            # The first forward moves the scales from the parameter to the layer's state.
            holders = (codes, getattr(self.owner, "state", None))
            scale = next((s for holder in holders if (s := getattr(holder, "SCB", None)) is not None), None)
            # Rows are scaled so that their largest value is 127.
            return None if scale is None else lambda: codes.data.float() * (scale.to(codes.device) / 127.0)[:, None]
        if self.leaf in CODED_BUFFERS:
            # `torch.nn.Module` has no such method: a layer that has one means its weight.
            return next((getattr(self.owner, name) for name in _METHODS if hasattr(self.owner, name)), None)
        return None


def coded(owner: nn.Module, leaf: str) -> Coded | None:
    """Return a module's tensor as a coded weight, or None where what is stored are its values."""
    tensor: Any = getattr(owner, leaf)
    why = _why(tensor)
    return None if why is None else Coded(owner, leaf, why)


def coded_buffers(model: nn.Module) -> Iterator[tuple[str, Coded]]:
    """Yield (live name, weight) of layers whose weight is no parameter at all but a buffer of codes."""
    for name, module in model.named_modules():
        for leaf, buffer in module._buffers.items():
            if leaf in CODED_BUFFERS and buffer is not None and buffer.dim() > 1:
                found = coded(module, leaf)
                if found is not None:
                    yield f"{name}.{leaf}" if name else leaf, found


def is_helper(owner: nn.Module, leaf: str) -> bool:
    """Return whether a parameter only serves to decode its module's weight (a scale, a zero point)."""
    if leaf in ("weight", "bias") or not any(word in leaf for word in _HELPERS):
        return False
    tensors = {**owner._parameters, **owner._buffers}
    return any(_why(tensor) is not None for tensor in tensors.values() if tensor is not None and tensor.dim() > 1)


def _why(tensor: Any) -> str | None:
    kind = type(tensor).__name__
    if _is_torchao(tensor):
        return f"stored as codes of a {kind}"
    if kind == "Params4bit" and getattr(tensor, "quant_state", None) is not None:
        # 4-bit codes may lie in a floating dtype, so that FSDP can shard them.
        return f"stored as 4-bit codes in {_dtype(tensor)}"
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"stored as {_dtype(tensor)} codes"
    if tensor.element_size() == 1:
        return f"stored as {_dtype(tensor)} codes with a scale of their own"
    return None


def _is_torchao(tensor: Any) -> bool:
    # These claim a floating dtype.
    return type(tensor).__module__.startswith("torchao.")


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
