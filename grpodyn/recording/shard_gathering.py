"""Matrices and factors that are split among ranks, put together on the first one: what it asks, the others send.

One matrix at a time: the first rank holds one whole matrix besides those that wait for their spectrum, and no rank ever
holds the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.recording.adapter_changes import Value
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.ranks import Ranks, Task
from grpodyn.recording.shard_parts import Moment, Parts, knows, told
from grpodyn.recording.spectra_worker import Weights


@dataclass(frozen=True)
class _Item:
    """Something of one parameter, or of one of the matrices that it is made of."""

    place: int
    moment: Moment
    block: int = 0
    blocks: int = 1


class Gathering:
    """Puts together what is split among ranks; on the ranks that follow, sends their parts of it.

    Args:
        ranks: all ranks.
        inventory: what is measured.
        measurement: this rank's.
        boundary: catches what fails on a rank that follows.
    """

    def __init__(self, ranks: Ranks, inventory: Inventory, measurement: Measurement, boundary: Boundary) -> None:
        self._ranks = ranks
        self._inventory = inventory
        self._boundary = boundary
        self._parts = Parts(inventory, measurement)
        self._tracked = measurement.tracked
        self._stored = len(inventory.stored)
        self._place = {id(entry.parameter): i for i, entry in enumerate(inventory.stored)}
        self.table = self._parts.table()
        """What this rank tells the others at the start."""
        self.lost: set[str] = set()
        """Names of tensors of which some rank could not send its part."""

    # The first rank: what a `Tracked` knows of whole tensors, of those that are split.

    def has_start(self, row: int) -> bool:
        """Return whether W_0 of a stored tensor can be put together, as far as this rank knows."""
        return self._is_placed(row) and self._tracked.has_start(row)

    def has_previous(self, row: int) -> bool:
        """Return whether W_{t−1} of a stored tensor can be put together, as far as this rank knows."""
        return self._is_placed(row) and self._tracked.has_previous(row)

    def delta_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return W_t − W_0 of a matrix, in at least float32, on the CPU; None if it cannot be put together now."""
        return self._matrix(row, Moment.DELTA, expert)

    def step_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return W_t − W_{t−1} of a matrix, like `delta_of`."""
        return self._matrix(row, Moment.STEP, expert) if self._tracked.knows_step else None

    def weights_of(self, row: int, expert: int | None = None) -> Weights | None:
        """Return W_0 and W_t of a matrix, like `delta_of`."""
        before = self._matrix(row, Moment.START, expert)
        after = self._matrix(row, Moment.LIVE, expert) if before is not None else None
        return None if before is None or after is None else Weights(before, after)

    def base_of(self, entry: int) -> Tensor | None:
        """Return the frozen weight under an adapted weight's adapters, on the CPU, in its own shape."""
        share = self._inventory.effective[entry].base_share
        found = self._part(_Item(self._stored + entry, Moment.LIVE))
        return None if found is None or share is None else found.view(share.shape)

    def factors(self, first: int, last: int, moments: Sequence[Moment]) -> dict[Moment, Value] | None:
        """Return the factors of some adapted weights at several moments, on the CPU; None if they cannot be had now.

        Args:
            first: place of the first among the adapted weights.
            last: place after the last; only those whose factors are split count.
            moments: what of the factors.
        """
        items = self._factor_items(first, last, moments)
        found = self._wholes(items, Task.FACTORS, first, last, sum(1 << moment for moment in moments))
        if found is None:
            return None
        by_key: dict[tuple[Moment, int], Tensor] = {}
        for item, values in zip(items, found, strict=True):
            entry = self._inventory.stored[item.place]
            shape = entry.share.shape if entry.share is not None else tuple(entry.parameter.shape)
            by_key[item.moment, id(entry.parameter)] = values.view(shape)

        def at(moment: Moment) -> Value:
            return lambda factor: by_key.get((moment, id(factor)))

        return {moment: at(moment) for moment in moments}

    # The ranks that follow.

    def send_part(self, place: int, moment: int, block: int, blocks: int) -> None:
        """Send this rank's part of a matrix."""
        self._send([_Item(place, Moment(moment), block, blocks)])

    def send_factors(self, first: int, last: int, moments: int, _: int) -> None:
        """Send this rank's parts of factors."""
        self._send(self._factor_items(first, last, [moment for moment in Moment if moments >> moment & 1]))

    # Both.

    def _is_placed(self, place: int) -> bool:
        share = self._parts.shares[place]
        return share is not None and share.box is not None

    def _matrix(self, row: int, moment: Moment, expert: int | None) -> Tensor | None:
        info = self._inventory.stored[row].info
        item = _Item(row, moment) if expert is None else _Item(row, moment, expert, info.matrices)
        found = self._part(item)
        return None if found is None else found.view(info.rows, info.cols)

    def _part(self, item: _Item) -> Tensor | None:
        found = self._wholes([item], Task.PART, item.place, item.moment, item.block, item.blocks)
        return None if found is None else found[0]

    def _factor_items(self, first: int, last: int, moments: Sequence[Moment]) -> list[_Item]:
        entries = self._inventory.effective[first:last]
        return [_Item(self._place[id(factor)], moment) for factor in _split_factors(entries) for moment in moments]

    def _wholes(self, items: list[_Item], task: Task, *numbers: int) -> list[Tensor] | None:
        """Return each item's whole values, flat, from the parts of all ranks; None if any cannot be had now."""
        if not self._ranks.tables or not all(self._can_gather(item) for item in items):
            return None
        # What may fail here is done before the others are asked to wait for it.
        dtype = self._dtype(items)
        own = [self._own(item) for item in items]
        wholes = [torch.full((self._numel(item),), torch.nan, dtype=dtype) for item in items]
        sizes = [self._sizes(rank, items) for rank in range(self._ranks.size)]
        if not self._ranks.tell(task, *numbers):
            return None
        self._ranks.missing = []
        self._put(0, items, own, wholes)
        for rank in range(1, self._ranks.size):
            if sum(sizes[rank]):
                received = self._ranks.receive(rank, sum(sizes[rank]), dtype)
                if received is not None:
                    self._put(rank, items, torch.split_with_sizes(received, sizes[rank]), wholes)
        if self._ranks.missing or self._ranks.failed:
            self.lost.update(self._inventory.infos[item.place].name for item in items)
            return None
        return wholes

    def _send(self, items: list[_Item]) -> None:
        size, dtype = sum(self._sizes(self._ranks.rank, items)), self._dtype(items)
        if size:
            values = self._boundary.run("part of a matrix", self._parcel, items, dtype)
            self._ranks.send(values, size, dtype)

    @torch.no_grad()
    def _parcel(self, items: list[_Item], dtype: torch.dtype) -> Tensor:
        counts = self._sizes(self._ranks.rank, items)
        return torch.cat([self._own(item).to(dtype) for item, count in zip(items, counts, strict=True) if count])

    @torch.no_grad()
    def _own(self, item: _Item) -> Tensor:
        return self._parts.values(item.place, item.moment, item.block, item.blocks).reshape(-1).to("cpu")

    def _put(self, rank: int, items: list[_Item], parts: Sequence[Tensor], wholes: list[Tensor]) -> None:
        for item, part, whole in zip(items, parts, wholes, strict=True):
            box = told(self._row(rank, item.place), self._shape(item.place))
            if box is not None and part.numel():
                box.rows(item.block, item.blocks)[0].put(part, whole)

    def _sizes(self, rank: int, items: list[_Item]) -> list[int]:
        boxes = [told(self._row(rank, item.place), self._shape(item.place)) for item in items]
        return [
            0 if box is None else box.rows(item.block, item.blocks)[0].numel
            for item, box in zip(items, boxes, strict=True)
        ]

    def _can_gather(self, item: _Item) -> bool:
        """Return whether the parts of all ranks are the whole, and all that hold some know it at that moment."""
        if not self._is_placed(item.place):
            return False
        rows = [self._row(rank, item.place) for rank in range(self._ranks.size)]
        boxes = [told(row, self._shape(item.place)) for row in rows]
        held = [(row, box.numel) for row, box in zip(rows, boxes, strict=True) if box is not None and box.numel]
        is_whole = sum(numel for _, numel in held) == prod(self._shape(item.place))
        return is_whole and all(knows(row, item.moment) for row, _ in held)

    def _row(self, rank: int, place: int) -> Tensor:
        return self._ranks.tables[rank][place]

    def _shape(self, place: int) -> tuple[int, ...]:
        share = self._parts.shares[place]
        return () if share is None or share.box is None else share.box.whole

    def _numel(self, item: _Item) -> int:
        return prod(self._shape(item.place)) // item.blocks

    def _dtype(self, items: list[_Item]) -> torch.dtype:
        wide = any(self._parts.dtype(item.place) == torch.float64 for item in items)
        return torch.float64 if wide else torch.float32


def _split_factors(entries: Sequence[Effective]) -> Iterator[nn.Parameter]:
    for entry in entries:
        if entry.is_split:
            for adapter in entry.adapters:
                yield from (adapter.a, adapter.b)
