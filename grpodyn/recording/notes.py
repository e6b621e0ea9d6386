"""What could not be measured or went wrong: each thing is written once, when it is first seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from grpodyn.naming.inventory import Inventory
from grpodyn.probe import Need
from grpodyn.trace.writer import TraceWriter

_SHOWN = 5


class Notes:
    """Writes events, the first of each kind.

    Args:
        writer: where they go.
        inventory: what is measured.
    """

    def __init__(self, writer: TraceWriter, inventory: Inventory) -> None:
        self._writer = writer
        self._inventory = inventory
        self._seen: set[str] = set()

    def once(self, step: int, what: str, why: str, **fields: Any) -> None:
        """Write an event unless one of that kind has been written."""
        if what not in self._seen:
            self._seen.add(what)
            self._writer.event(step, what, why, **fields)

    def missing_gradients(self, step: int, names: list[str]) -> None:
        """Note that tensors have no gradient, which is not a gradient of zero: none came, or it is elsewhere."""
        if names:
            total = len(self._inventory.stored)
            self.once(
                step,
                "no gradient",
                f"{len(names)} of {total} trained tensors have no gradient before the step; recorded as nan",
                tensors=names[:_SHOWN],
            )

    def unknown_steps(self, step: int, unknown: Mapping[int, str]) -> None:
        """Note which tensors' intended steps the optimizer's state does not tell, and why."""
        by_reason: dict[str, list[str]] = {}
        for entry in self._inventory.stored if unknown else ():
            if id(entry.parameter) in unknown:
                by_reason.setdefault(unknown[id(entry.parameter)], []).append(entry.info.name)
        for why, names in by_reason.items():
            what = f"intended step of {len(names)} tensors not known"
            self.once(step, what, f"{why}; recorded as nan", tensors=names[:_SHOWN])

    def lost_tensors(self, step: int, names: list[str]) -> None:
        """Note that tensors are no longer what they were: each time that there are more of them."""
        if names:
            why = "their shape, dtype, layout or device is not that of the start; recorded as nan from here on"
            self.once(step, f"{len(names)} tensors changed form", why, tensors=names[-_SHOWN:])

    def unknown_parameters(self, step: int, count: int) -> None:
        """Note that the optimizer trains parameters that were not there, or frozen, at the start."""
        if count:
            why = "they were added, or were frozen, when recording started; they are not recorded"
            self.once(step, f"{count} trained parameters without a row", why)

    def not_finite(self, step: int, sums: dict[Need, Tensor], measured: dict[Need, set[int]]) -> None:
        """Note the first step and tensor with NaN or Inf, for each thing that is measured."""
        for need, values in sums.items():
            rows = sorted(row for row in measured.get(need, ()) if not bool(values[row].isfinite()))
            if rows:
                name = self._inventory.infos[rows[0]].name
                self.once(
                    step,
                    f"non-finite {need.value}",
                    f"{need.value} of {len(rows)} tensors holds NaN or Inf, first of {name}; recorded as nan",
                    tensor=name,
                    tensors=len(rows),
                )
