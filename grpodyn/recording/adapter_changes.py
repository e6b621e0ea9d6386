"""How far adapted weights move: norms of effective updates from their thin factors, never from a dense product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from grpodyn.naming.inventory import Effective
from grpodyn.spectra.lowrank import LowRank, joined, squared_norms

Value = Callable[[nn.Parameter], Tensor | None]
"""The value of a factor at some time; None where it is not known whole."""


@dataclass(frozen=True)
class Changes:
    """Effective updates of some adapted weights."""

    places: list[int]
    """Their places among the adapted weights."""
    squares: Tensor
    """‖ΔW‖_F², float64, shape (places,)."""


def change(entry: Effective, after: Value, before: Value) -> LowRank | None:
    """Return an adapted weight's effective change, that of all its adapters; None if a factor is not known."""
    parts = []
    for adapter in entry.adapters:
        b1, a1, b0, a0 = after(adapter.b), after(adapter.a), before(adapter.b), before(adapter.a)
        if b1 is None or a1 is None or b0 is None or a0 is None:
            return None
        parts.append(adapter.change(b1, a1, b0, a0))
    return joined(parts)


def changes(entries: Sequence[Effective], after: Value, before: Value) -> Changes:
    """Return the squared norms of the effective changes of adapted weights, those of one shape computed together."""
    places, products = [], []
    for place, entry in enumerate(entries):
        product = change(entry, after, before)
        if product is not None:
            places.append(place)
            products.append(product)
    return Changes(places, squared_norms(products))
