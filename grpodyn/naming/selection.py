"""Which tensors of a model are recorded: all, or what `record.only` and `record.skip` leave."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from grpodyn.errors import ConfigError, did_you_mean
from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Effective, Inventory, Stored
from grpodyn.trace.schema import TensorInfo

logger = logging.getLogger("grpodyn")

Entry = int | str
"""The index of a layer, a module type, a canonical name, or a pattern of names with `*`, `?` or `[…]`."""


@dataclass(frozen=True)
class _Unit:
    """What is recorded or left out as one: a tensor, or an adapted weight with the factors of its adapters."""

    stored: tuple[Stored, ...]
    effective: Effective | None = None

    @property
    def infos(self) -> list[TensorInfo]:
        return [*(entry.info for entry in self.stored), *([self.effective.info] if self.effective else [])]

    def matches(self, entry: Entry) -> bool:
        return any(_matches(info, entry) for info in self.infos)


def select(inventory: Inventory, only: Sequence[Entry] | None, skip: Sequence[Entry]) -> Inventory:
    """Return what is left of an inventory. What is left out is named among the unmeasured, layer by layer.

    An adapted weight and the factors of its adapters stay or go together: its rows are computed from theirs.

    Args:
        inventory: everything that can be measured.
        only: keep what one of these matches; None keeps all.
        skip: of that, leave out what one of these matches.

    Raises:
        ConfigError: nothing is left.
    """
    if only is None and not skip:
        return inventory
    units = _units(inventory)
    unmatched = [
        Unmeasured(f"record.{key}: {entry!r}", _no_match(entry, inventory.infos))
        for key, entries in (("only", only or ()), ("skip", skip))
        for entry in entries
        if not any(unit.matches(entry) for unit in units)
    ]
    for entry in unmatched:
        logger.warning("%s %s", entry.what, entry.why)
    kept = [
        unit
        for unit in units
        if (only is None or any(unit.matches(entry) for entry in only))
        and not any(unit.matches(entry) for entry in skip)
    ]
    if not kept:
        raise ConfigError(
            f"record.only {only} and record.skip {list(skip)} leave none of {len(inventory.infos)} tensors; "
            f"name layers, module types ({', '.join(_modules(inventory.infos))}) or patterns of names"
        )
    stays = {id(info) for unit in kept for info in unit.infos}
    left = [info for info in inventory.infos if id(info) not in stays]
    return replace(
        inventory,
        stored=[entry for entry in inventory.stored if id(entry.info) in stays],
        effective=[entry for entry in inventory.effective if id(entry.info) in stays],
        unmeasured=[*unmatched, *inventory.unmeasured, *_left_out(left)],
    )


def _units(inventory: Inventory) -> list[_Unit]:
    by_parameter = {id(entry.parameter): entry for entry in inventory.stored}
    units, taken = [], set()
    for entry in inventory.effective:
        factors = [id(factor) for adapter in entry.adapters for factor in (adapter.a, adapter.b)]
        units.append(_Unit(tuple(by_parameter[key] for key in factors if key in by_parameter), entry))
        taken |= set(factors)
    return units + [_Unit((entry,)) for entry in inventory.stored if id(entry.parameter) not in taken]


def _matches(info: TensorInfo, entry: Entry) -> bool:
    if isinstance(entry, int):
        return info.layer == entry
    return entry == info.module or fnmatchcase(info.name, entry)


def _modules(infos: Sequence[TensorInfo]) -> list[str]:
    return sorted({info.module for info in infos})


def _no_match(entry: Entry, infos: Sequence[TensorInfo]) -> str:
    if isinstance(entry, int):
        layers = [info.layer for info in infos if info.layer >= 0]
        return f"matches no tensor (layers: {min(layers)} to {max(layers)})" if layers else "matches no tensor"
    return f"matches no tensor{did_you_mean(entry, [*_modules(infos), *(info.name for info in infos)])}"


def _left_out(infos: Sequence[TensorInfo]) -> list[Unmeasured]:
    """Return one entry per layer: a layer that is recorded in part has no displacement of its own."""
    counts = Counter((info.stack, info.layer) for info in infos)
    return [
        Unmeasured(
            f"{count} tensors of {stack}.{layer}" if layer >= 0 else f"{count} tensors outside the layers",
            "left out by record.only or record.skip",
            layer,
            stack,
        )
        for (stack, layer), count in sorted(counts.items())
    ]
