"""What this rank holds of the parameters that are split among ranks, at the times that spectra and adapters ask for."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from grpodyn.naming.boxes import Box
from grpodyn.naming.inventory import Inventory
from grpodyn.naming.shards import Share, local
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.pieces import differences, widened

_DIMS = 4
"""Dimensions of the largest box that ranks tell each other."""


class Moment(IntEnum):
    """What of a parameter is asked for; each of them is split as the parameter is."""

    LIVE = 0
    """W_t."""
    START = 1
    """W_0."""
    PREVIOUS = 2
    """W_{t−1}."""
    DELTA = 3
    """W_t − W_0."""
    STEP = 4
    """W_t − W_{t−1}."""
    INTENDED = 5
    """The step that the optimizer meant."""


class Parts:
    """This rank's parts of all split parameters: those of the tensor axis, then the weights under adapters.

    Args:
        inventory: what is measured.
        measurement: knows the parameters at the other times.
    """

    def __init__(self, inventory: Inventory, measurement: Measurement) -> None:
        self._measurement = measurement
        self._stored = len(inventory.stored)
        self._tensors: list[Tensor] = [entry.parameter for entry in inventory.stored]
        self._tensors += [entry.base_weight for entry in inventory.effective]
        self.shares: list[Share | None] = [entry.share for entry in inventory.stored]
        self.shares += [entry.base_share for entry in inventory.effective]

    def dtype(self, place: int) -> torch.dtype:
        """Return the dtype in which parts of a parameter travel."""
        return torch.float64 if self._tensors[place].dtype == torch.float64 else torch.float32

    def table(self) -> Tensor:
        """Return where this rank's parts lie, and which moments it knows: int64, one row a parameter."""
        return torch.tensor([self._row(place) for place in range(len(self.shares))], dtype=torch.int64).reshape(
            len(self.shares), 4 + 2 * _DIMS
        )

    def values(self, place: int, moment: Moment, block: int = 0, blocks: int = 1) -> Tensor:
        """Return this rank's values in one of several equal blocks of rows of the whole, in at least float32.

        Args:
            place: which parameter.
            moment: what of it.
            block: which block (a matrix of a stack).
            blocks: how many there are.

        Raises:
            LookupError: this rank does not know it.
        """
        share = self.shares[place]
        if share is None or share.box is None:
            raise LookupError(f"parameter {place} is not split in a way that is known")
        _, rows = share.box.rows(block, blocks)
        live = local(self._tensors[place]).detach()[rows]
        if moment is Moment.LIVE or (moment is Moment.START and place >= self._stored):
            return widened([live])[0]
        if moment is Moment.INTENDED:
            return self._intended(place)[rows]
        before = self._start(place) if moment in (Moment.START, Moment.DELTA) else self._previous(place)
        other = before[rows].to(device=live.device, dtype=live.dtype)
        if moment in (Moment.DELTA, Moment.STEP):
            return differences([live], [other])[0]
        return widened([other])[0]

    def _start(self, place: int) -> Tensor:
        start = self._measurement.tracked.reference.tensors[place]
        if start is None:
            raise LookupError(f"W_0 of parameter {place} is not known")
        return start

    def _previous(self, place: int) -> Tensor:
        tracked = self._measurement.tracked
        if tracked.previous is None or not tracked.knows_step or tracked.previous.is_sampled(place):
            raise LookupError(f"W_(t-1) of parameter {place} is not known")
        return tracked.previous.copies[place]

    def _intended(self, place: int) -> Tensor:
        step = self._measurement.intended_factors.get(id(self._tensors[place]))
        if step is None:
            raise LookupError(f"the intended step of parameter {place} is not known")
        return step

    def _row(self, place: int) -> list[int]:
        share, tracked = self.shares[place], self._measurement.tracked
        if share is None or share.box is None or len(share.box.shape) > _DIMS:
            return [0] * (4 + 2 * _DIMS)
        box, stored = share.box, place < self._stored
        padding = [0] * (_DIMS - len(box.shape))
        knows = [not stored or tracked.has_start(place), stored and tracked.has_previous(place)]
        return [len(box.shape), share.counted, *map(int, knows), *box.start, *padding, *box.shape, *padding]


def told(row: Tensor, whole: tuple[int, ...]) -> Box | None:
    """Return the box that a rank's table tells of a parameter; None where what it holds does not count.

    Args:
        row: the row of the parameter in the table.
        whole: shape of the whole, as boxes of this parameter have it.
    """
    dims, counted, _, _, *places = row.tolist()
    if dims != len(whole) or not counted:
        return None
    return Box(whole, tuple(places[:dims]), tuple(places[_DIMS : _DIMS + dims]))


def knows(row: Tensor, moment: Moment) -> bool:
    """Return whether a rank knows a parameter at a moment, by its table."""
    if moment in (Moment.START, Moment.DELTA):
        return bool(row[2])
    return bool(row[3]) if moment in (Moment.PREVIOUS, Moment.STEP) else True
