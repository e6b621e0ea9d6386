"""How far adapted weights move: norms of effective updates from their thin factors, never from a dense product."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from grpodyn.naming.adapters import Adapter
from grpodyn.naming.inventory import Effective
from grpodyn.spectra.lowrank import LowRank

Value = Callable[[nn.Parameter], Tensor | None]
"""The value of a factor at some time; None where it is not known whole."""

_CANCELLED = 1e-8


@dataclass(frozen=True)
class Changes:
    """Effective updates of some adapted weights."""

    places: list[int]
    """Their places among the adapted weights."""
    squares: Tensor
    """‖ΔW‖_F², float64, shape (places,)."""


def change(entry: Effective, after: Value, before: Value) -> list[LowRank] | None:
    """Return an adapted weight's effective change as thin factors, one per adapter; None if a factor is not known."""
    parts = []
    for adapter in entry.adapters:
        b1, a1, b0, a0 = after(adapter.b), after(adapter.a), before(adapter.b), before(adapter.a)
        if b1 is None or a1 is None or b0 is None or a0 is None:
            return None
        parts.append(adapter.change(b1, a1, b0, a0))
    return parts


def joined(parts: list[LowRank]) -> LowRank:
    """Return the sum of products as one product of stacked factors."""
    if len(parts) == 1:
        return parts[0]
    return LowRank(torch.cat([part.left for part in parts], -1), torch.cat([part.right for part in parts], -2))


def changes(entries: Sequence[Effective], after: Value, before: Value) -> Changes:
    """Return the squared norms of the effective changes of adapted weights, those of one shape computed together."""
    places, products = [], []
    for place, entry in enumerate(entries):
        parts = change(entry, after, before)
        if parts is not None:
            places.append(place)
            products.append(joined(parts))
    return Changes(places, squared_norms(products))


def squared_norms(products: Sequence[LowRank]) -> Tensor:
    """Return ‖·‖_F² of each product: `LowRank.squared_norm`, sharing kernel calls among products of one shape.

    Returns:
        float64, shape (products,), on the CPU or on the products' device.
    """
    if not products:
        return torch.zeros(0, dtype=torch.float64)
    groups: dict[tuple[torch.Size, torch.Size], list[int]] = defaultdict(list)
    for i, product in enumerate(products):
        groups[product.left.shape, product.right.shape].append(i)
    result = torch.empty(len(products), dtype=torch.float64, device=products[0].left.device)
    for members in groups.values():
        left = torch.stack([products[i].left for i in members])
        right = torch.stack([products[i].right for i in members])
        terms = ((left.mT @ left) * (right @ right.mT)).flatten(1)
        totals = terms.sum(1)
        # Where the terms cancel, the product's own QR form is exact.
        poor = ~(totals > _CANCELLED * terms.abs().sum(1))
        result[torch.tensor(members, device=result.device)] = totals
        for k in poor.nonzero().flatten().tolist():
            result[members[k]] = products[members[k]].squared_norm()
    return result


def factors(entries: Sequence[Effective]) -> list[tuple[Adapter, nn.Parameter]]:
    """Return every factor of adapted weights with its adapter."""
    return [(adapter, factor) for entry in entries for adapter in entry.adapters for factor in (adapter.a, adapter.b)]
