"""Matrices known by two thin factors: a LoRA update's norm and spectrum without its dense product."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

# A float64 Gram matrix loses digits when the summands cancel; under this share of them the QR form is used.
_CANCELLED = 1e-8


@dataclass(frozen=True)
class LowRank:
    """The matrix left @ right, never formed.

    Args:
        left: shape (m, k); or (e, m, k) for a stack of e experts.
        right: shape (k, n); or (e, k, n).
    """

    left: Float[Tensor, "*e m k"]
    right: Float[Tensor, "*e k n"]

    def __post_init__(self) -> None:
        if self.left.shape[-1] != self.right.shape[-2] or self.left.shape[:-2] != self.right.shape[:-2]:
            raise ValueError(
                f"factors of shapes {tuple(self.left.shape)} and {tuple(self.right.shape)} do not multiply; "
                "pass left (m, k) and right (k, n)"
            )

    @property
    def shape(self) -> torch.Size:
        """Shape of the product."""
        return torch.Size((*self.left.shape[:-1], self.right.shape[-1]))

    def squared_norm(self) -> Float64[Tensor, ""]:
        """Return ‖left·right‖_F² as a 0-d float64 tensor on the factors' device; summed over a stack.

        ‖LR‖² = ⟨LᵀL, RRᵀ⟩ in float64 (in float32 it is several percent off), and by QR where that would cancel.

        >>> LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 2.0]])).squared_norm()
        tensor(100., dtype=torch.float64)
        """
        left, right = self.left.detach().double(), self.right.detach().double()
        terms = (left.mT @ left) * (right @ right.mT)
        total = terms.sum()
        if total.device.type == "cpu" and not float(total) > _CANCELLED * float(terms.abs().sum()):
            return _core(left, right).square().sum()
        # Where the check would stall an accelerator, a cancelled sum may come out below zero.
        return total.clamp(min=0.0)

    def singular_values(self) -> Float64[Tensor, "*e values"]:
        """Return the min(m, n) singular values, descending, float64, on the factors' device; those beyond k are 0.

        With L = Q₁R₁ and Rᵀ = Q₂R₂ the values of LR are those of the small core R₁R₂ᵀ.

        >>> LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 2.0]])).singular_values()
        tensor([10.,  0.], dtype=torch.float64)
        """
        values = torch.linalg.svdvals(_core(self.left.detach().double(), self.right.detach().double()))
        full = torch.zeros((*self.shape[:-2], min(self.shape[-2:])), dtype=torch.float64, device=values.device)
        kept = min(values.shape[-1], full.shape[-1])
        full[..., :kept] = values[..., :kept]
        return full


def product(b: Float[Tensor, "m r"], a: Float[Tensor, "r n"], scale: float = 1.0) -> LowRank:
    """Return scale·B·A, a LoRA adapter's update of its weight.

    Args:
        b: shape (m, r).
        a: shape (r, n).
        scale: α/r, or what the adapter's variant puts in its place.

    >>> product(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 1.0]]), scale=2.0).squared_norm()
    tensor(100., dtype=torch.float64)
    """
    return LowRank(b.detach().double() * scale, a.detach().double())


def difference(
    b1: Float[Tensor, "*e m r"],
    a1: Float[Tensor, "*e r n"],
    b0: Float[Tensor, "*e m r"],
    a0: Float[Tensor, "*e r n"],
    scale: float = 1.0,
) -> LowRank:
    """Return scale·(B₁A₁ − B₀A₀) as stacked factors [B₁−B₀, B₀]·[A₁; A₁−A₀].

    The small differences are taken on the factors, where they are exact in float64, and not on two nearly equal
    products.

    Args:
        b1: shape (m, r), after; or (e, m, r) for a stack of e experts.
        a1: shape (r, n), after; or (e, r, n).
        b0: shaped like b1, before.
        a0: shaped like a1, before.
        scale: α/r, or what the adapter's variant puts in its place.

    >>> b, a = torch.tensor([[1.0]]), torch.tensor([[1.0]])
    >>> float(difference(b + 2.0**-20, a, b, a).squared_norm() ** 0.5) == 2.0**-20
    True
    """
    b1, a1, b0, a0 = (factor.detach().double() for factor in (b1, a1, b0, a0))
    return LowRank(torch.cat([b1 - b0, b0], dim=-1) * scale, torch.cat([a1, a1 - a0], dim=-2))


def joined(products: Sequence[LowRank]) -> LowRank:
    """Return the sum Σ LᵢRᵢ as one product of stacked factors [L₁, L₂ …]·[R₁; R₂; …].

    Args:
        products: at least one, all of one shape.

    >>> one = LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 1.0]]))
    >>> joined([one, one]).squared_norm()
    tensor(100., dtype=torch.float64)
    """
    if len(products) == 1:
        return products[0]
    left = torch.cat([product.left for product in products], dim=-1)
    return LowRank(left, torch.cat([product.right for product in products], dim=-2))


def squared_norms(products: Sequence[LowRank]) -> Float64[Tensor, " n"]:
    """Return ‖·‖_F² of each product: `LowRank.squared_norm`, sharing kernel calls among products of one shape.

    Args:
        products: n products of any shapes, on one device.

    Returns:
        float64, shape (n,), on the factors' device.

    >>> one = LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 2.0]]))
    >>> squared_norms([one, one])
    tensor([100., 100.], dtype=torch.float64)
    """
    if not products:
        return torch.zeros(0, dtype=torch.float64)
    groups: dict[tuple[torch.Size, torch.Size], list[int]] = defaultdict(list)
    for i, product in enumerate(products):
        groups[product.left.shape, product.right.shape].append(i)
    result = torch.empty(len(products), dtype=torch.float64, device=products[0].left.device)
    for members in groups.values():
        left = torch.stack([products[i].left for i in members]).detach().double()
        right = torch.stack([products[i].right for i in members]).detach().double()
        terms = ((left.mT @ left) * (right @ right.mT)).flatten(1)
        sums = terms.sum(1)
        result[torch.tensor(members, device=result.device)] = sums
        # Where the terms cancel, the product's own QR form is exact.
        poor = ~(sums > _CANCELLED * terms.abs().sum(1))
        for k in poor.nonzero().flatten().tolist():
            result[members[k]] = products[members[k]].squared_norm()
    return result


def _core(left: Tensor, right: Tensor) -> Tensor:
    """Return the small matrix R₁R₂ᵀ that has the product's singular values."""
    core: Tensor = torch.linalg.qr(left, mode="r").R @ torch.linalg.qr(right.mT, mode="r").R.mT
    return core
