"""Effective updates of adapted weights whose factors are split among ranks: from the factors put together."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor, nn

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.probe import Need
from grpodyn.recording.adapter_changes import Value, change, changes
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.shard_gathering import Gathering
from grpodyn.recording.shard_parts import Moment
from grpodyn.spectra.lowrank import LowRank

_MOMENTS = {
    Need.STEP: (Moment.PREVIOUS, Moment.LIVE),
    Need.INTENDED_STEP: (Moment.PREVIOUS, Moment.INTENDED),
    Need.DELTA: (Moment.START, Moment.LIVE),
}
"""What of the factors a need takes: before, and after."""


class SplitAdapters:
    """Measures effective updates on the first rank.

    Args:
        inventory: what is measured.
        measurement: knows what was read at the step.
        gathering: puts factors together.
        limit: bytes of factors that are put together at a time; the largest adapted weight is taken alone.
    """

    def __init__(self, inventory: Inventory, measurement: Measurement, gathering: Gathering, limit: int) -> None:
        self._entries = inventory.effective
        self._measurement = measurement
        self._first_row = len(inventory.stored)
        self._gathering = gathering
        self._groups = list(_groups(self._entries, limit))

    def fill(self, sums: dict[Need, Tensor], needs: frozenset[Need]) -> None:
        """Write the squared norms of effective updates into a step's sums.

        Args:
            sums: float64 of shape (rows,) by need.
            needs: what is measured at this step.
        """
        known = {Need.DELTA}
        known |= {Need.STEP} if self._measurement.tracked.knows_step else set()
        known |= {Need.INTENDED_STEP} if self._measurement.intended_factors else set()
        wanted = [need for need in _MOMENTS if need in needs & known]
        moments = sorted({moment for need in wanted for moment in _MOMENTS[need]})
        for first, last in self._groups if wanted else ():
            values = self._gathering.factors(first, last, moments)
            if values is None:
                continue
            split = [place for place in range(first, last) if self._entries[place].is_split]
            for need in wanted:
                before, after = values[_MOMENTS[need][0]], values[_MOMENTS[need][1]]
                after = _plus(before, after) if need is Need.INTENDED_STEP else after
                found = changes([self._entries[place] for place in split], after, before)
                rows = torch.tensor([self._first_row + split[place] for place in found.places], dtype=torch.int64)
                # Needs may share a tensor of nan.
                sums[need] = sums[need].index_copy(0, rows, found.squares.cpu())

    def thin(self, place: int, *, since_start: bool) -> LowRank | None:
        """Return one effective change as thin factors on the CPU; None if it cannot be had now.

        Args:
            place: place among the adapted weights.
            since_start: whether it is the change since the start, else that of the last step.
        """
        if not (since_start or self._measurement.tracked.knows_step):
            return None
        moment = Moment.START if since_start else Moment.PREVIOUS
        values = self._gathering.factors(place, place + 1, sorted((Moment.LIVE, moment)))
        return None if values is None else change(self._entries[place], values[Moment.LIVE], values[moment])


def _plus(before: Value, step: Value) -> Value:
    def value(factor: nn.Parameter) -> Tensor | None:
        start, moved = before(factor), step(factor)
        return None if start is None or moved is None else start.double() + moved.double()

    return value


def _groups(entries: list[Effective], limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of adapted weights that contain split ones, each small enough."""
    first, filled = 0, 0
    for place, entry in enumerate(entries):
        size = _bytes(entry)
        if filled and filled + size > limit:
            yield first, place
            first, filled = place, 0
        filled += size
    if filled:
        yield first, len(entries)


def _bytes(entry: Effective) -> int:
    if not entry.is_split:
        return 0
    # Three moments of float32.
    return 12 * entry.rank * (prod((entry.info.rows, entry.info.matrices)) + entry.info.cols)
