"""A parameter as matrices: how many, how large, and which way round they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from grpodyn.naming.place import is_transposed_linear

OUT_IN = "out_in"
IN_OUT = "in_out"
INTERLEAVED = "in_out_interleaved"

_LINEAR_MAPS = ("linear", "head", "router", "expert")


@dataclass(frozen=True)
class Matrices:
    """`count` matrices of one shape; a vector is (n, 1)."""

    count: int
    rows: int
    cols: int
    layout: str
    """`out_in`, `in_out`, `in_out_interleaved` (gate and up columns alternate); empty where there is no linear map."""


def matrices_of(owner: nn.Module, leaf: str, shape: tuple[int, ...], kind: str) -> Matrices:
    """Return a parameter as matrices.

    Experts are a stack (experts, …) of matrices, and their biases a stack of vectors. A convolution kernel
    (channels, …, width) is one matrix whose rows are everything but the width.

    Args:
        owner: the module that holds the parameter.
        leaf: its name in there.
        shape: its shape.
        kind: its kind.

    >>> matrices_of(nn.Linear(8, 4), "weight", (4, 8), "linear")
    Matrices(count=1, rows=4, cols=8, layout='out_in')
    >>> matrices_of(nn.Module(), "bias", (4,), "bias")
    Matrices(count=1, rows=4, cols=1, layout='')
    """
    layout = _layout(owner, leaf, shape) if kind in _LINEAR_MAPS else ""
    if kind == "expert" and len(shape) == 3:
        return Matrices(shape[0], shape[1], shape[2], layout)
    flat = getattr(owner, "moe_num_experts", 0)
    if kind == "expert" and len(shape) == 2 and flat and shape[0] % flat == 0:
        # DBRX lays its experts' matrices under one another, the last one to be multiplied from the left.
        return Matrices(flat, shape[0] // flat, shape[1], IN_OUT if leaf == "w2" else OUT_IN)
    if kind == "bias" and len(shape) == 2:
        return Matrices(shape[0], shape[1], 1, "")
    if len(shape) < 2:
        return Matrices(1, prod(shape), 1, "")
    return Matrices(1, prod(shape[:-1]), shape[-1], layout)


def _layout(owner: nn.Module, leaf: str, shape: tuple[int, ...]) -> str:
    if len(shape) == 2:
        return IN_OUT if is_transposed_linear(owner) else OUT_IN
    if leaf == "weight":
        # One stack to a module follows torch: (experts, out, in).
        return OUT_IN
    transposed = getattr(owner, "is_transposed", None)
    if not isinstance(transposed, bool):
        transposed = _transposed_by_shape(owner)
    if transposed is None:
        return ""
    if not transposed:
        return OUT_IN
    alternate = leaf.startswith("gate_up") and getattr(owner, "is_concatenated", True) is False
    return INTERLEAVED if alternate else IN_OUT


def _transposed_by_shape(owner: nn.Module) -> bool | None:
    """Return whether fused experts are (experts, in, out); None where the shapes do not tell.

    `gate_up_proj` maps H to 2I and `down_proj` I to H, so that only one of the two orientations fits, whatever H and I.
    """
    up, down = getattr(owner, "gate_up_proj", None), getattr(owner, "down_proj", None)
    if not (isinstance(up, Tensor) and isinstance(down, Tensor) and up.dim() == down.dim() == 3):
        return None
    if up.shape[1] == 2 * down.shape[2] and up.shape[2] == down.shape[1]:
        return False
    if up.shape[2] == 2 * down.shape[1] and up.shape[1] == down.shape[2]:
        return True
    return None
