"""How many elements of a tensor changed, exactly and beyond what rounding does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

NOTICEABLE = 1e-3
"""Relative change that bf16, with 8 significant bits, cannot bring about by rounding alone."""

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def changed_bits(
    after: Sequence[Float[Tensor, "..."]], before: Sequence[Float[Tensor, "..."]]
) -> Float64[Tensor, " n"]:
    """Return, for each pair of tensors of one dtype, how many elements differ in their stored bits.

    Args:
        after: n tensors of any shapes, on one device.
        before: tensors of the same shapes and dtypes.

    Returns:
        float64, shape (n,), on the tensors' device. A NaN that stays the same NaN is no change; −0 for 0 is one.

    >>> changed_bits([torch.tensor([1.0, 2.0, 3.0])], [torch.tensor([1.0, 2.5, 3.0])])
    tensor([1.], dtype=torch.float64)
    """
    return _counts([_bits(a) != _bits(b) for a, b in zip(after, before, strict=True)])


def changed_noticeably(
    after: Sequence[Float[Tensor, "..."]], before: Sequence[Float[Tensor, "..."]], tolerance: float = NOTICEABLE
) -> Float64[Tensor, " n"]:
    """Return, for each pair of tensors, how many elements have |a − b| > tolerance · max(|a|, |b|).

    Args:
        after: n tensors of any shapes, on one device, in a dtype that differences survive in.
        before: tensors of the same shapes and dtypes.
        tolerance: share of the larger of the two.

    Returns:
        float64, shape (n,), on the tensors' device.

    Reference: the bf16-aware test of Zhu et al. 2025 (arXiv 2511.08567).

    >>> changed_noticeably([torch.tensor([1.0, 2.0, 0.0])], [torch.tensor([1.0005, 2.1, 0.0])])
    tensor([1.], dtype=torch.float64)
    """
    return _counts([noticeably_different(a, b, tolerance) for a, b in zip(after, before, strict=True)])


def noticeably_different(
    a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"], tolerance: float = NOTICEABLE
) -> Tensor:
    """Return where |a − b| > tolerance · max(|a|, |b|): bool, of the tensors' shape."""
    # In place as far as it goes: on a large model this is the dearest thing of a step that measures displacements.
    change = torch.sub(a, b).abs_()
    larger = a.abs()
    return change > torch.maximum(larger, b.abs(), out=larger).mul_(tolerance)


def _bits(x: Tensor) -> Tensor:
    return x.detach().view(_INTEGERS[x.element_size()])


def _counts(masks: Sequence[Tensor]) -> Tensor:
    if not masks:
        return torch.zeros(0, dtype=torch.float64)
    return torch.stack([torch.count_nonzero(mask) for mask in masks]).double()
