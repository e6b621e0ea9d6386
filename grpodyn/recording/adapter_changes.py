"""How far adapted weights move: effective updates from their thin factors, never from a dense product.

A DoRA has no thin factors: its update is formed, one module at a time, where somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from grpodyn.naming.adapters import Adapter
from grpodyn.naming.inventory import Effective
from grpodyn.spectra.dora import dora_update
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


def dense_change(entry: Effective, after: Value, before: Value) -> Tensor | None:
    """Return the effective change of a weight under a DoRA, float64, (out, in); None if a part of it is not known."""
    weight = entry.base_values()
    if weight is None or weight.dim() != 2:
        return None
    total: Tensor | None = None
    for adapter in entry.adapters:
        now, then = ([value(part) for part in adapter.trained] for value in (after, before))
        if any(part is None for part in (*now, *then)):
            return None
        own = _update(adapter, weight, now) - _update(adapter, weight, then)
        total = own if total is None else total + own
    return total


def _update(adapter: Adapter, weight: Tensor, parts: Sequence[Tensor | None]) -> Tensor:
    """Return what one adapter adds to the frozen weight, float64, (out, in)."""
    a, b = (part.double() for part in parts[:2] if part is not None)
    if adapter.magnitude is None or parts[2] is None:
        return adapter.scale * (b @ a)
    # Where in- and output are of one size, only the layer knows which way round its weight is.
    stored = weight.T if getattr(adapter.layer, "fan_in_fan_out", False) else weight
    return dora_update(stored, b, a, parts[2], adapter.scale)


def changes(entries: Sequence[Effective], after: Value, before: Value) -> Changes:
    """Return the squared norms of the effective changes of adapted weights, those of one shape computed together."""
    places, products = [], []
    for place, entry in enumerate(entries):
        product = change(entry, after, before)
        if product is not None:
            places.append(place)
            products.append(product)
    return Changes(places, squared_norms(products))
