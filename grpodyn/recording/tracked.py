"""The trained tensors of a recording beside what is known of them: W_0, and W_{t−1} at the steps that need it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Inventory
from grpodyn.naming.shards import local
from grpodyn.naming.zero3 import is_partitioned
from grpodyn.recording.pieces import Piece, batches, differences
from grpodyn.recording.previous import PreviousWeights
from grpodyn.recording.reference import Reference
from grpodyn.recording.spectra_worker import Weights


class Tracked:
    """Knows the live tensors by their place on the tensor axis, and copies how they have changed.

    Args:
        inventory: what is measured.
        reference: W_0 of the stored tensors.
        previous: W_{t−1}; None where no probe looks at a step.
    """

    def __init__(self, inventory: Inventory, reference: Reference, previous: PreviousWeights | None) -> None:
        self.inventory = inventory
        self.reference = reference
        self.previous = previous
        self.live: list[nn.Parameter] = [entry.parameter for entry in inventory.stored]
        self.knows_step = False
        """Whether W_{t−1} of the last step is held."""
        self.lost: list[str] = []
        """Names of tensors that are no longer what they were at the start, and are not measured any more."""
        self.without_start: list[Unmeasured] = []
        """What has lost its starting weights while training ran, and why."""
        self._place = {id(parameter): i for i, parameter in enumerate(self.live)}
        self._forms = [_form(parameter) for parameter in self.live]

    def leave_out_lost(self) -> set[int]:
        """Forget parameters whose shape, dtype or place has changed: a difference would mean nothing.

        And starting weights whose file has changed.

        Returns:
            Places of those that have changed since the last call.
        """
        if (gone := self.reference.drop_rewritten()) is not None:
            self.without_start.append(gone)
        changed = {i for i, parameter in enumerate(self.live) if _form(parameter) != self._forms[i]}
        for i in sorted(changed):
            self._forms[i] = _form(self.live[i])
            self.lost.append(self.inventory.stored[i].info.name)
            self._place.pop(id(self.live[i]), None)
            self.reference.tensors[i] = None
            if self.previous is not None:
                self.previous.forget(i)
        return changed

    def has_start(self, row: int) -> bool:
        """Return whether W_0 of a stored tensor is known."""
        return self.reference.tensors[row] is not None

    def has_previous(self, row: int) -> bool:
        """Return whether W_{t−1} of a stored tensor is kept whole at the steps that need it."""
        return self.previous is not None and not self.previous.is_sampled(row)

    def start_of(self, parameter: nn.Parameter) -> Tensor | None:
        """Return W_0 of a stored parameter on its device; None where it is not known."""
        place = self._place.get(id(parameter))
        if place is None or self.reference.tensors[place] is None:
            return None
        return self.reference.piece(Piece(place), parameter)

    def previous_of(self, parameter: nn.Parameter) -> Tensor | None:
        """Return W_{t−1} of a stored parameter; None where it is not known whole, or the last step kept none."""
        return self.copy_of(parameter) if self.knows_step else None

    def copy_of(self, parameter: nn.Parameter) -> Tensor | None:
        """Return the copy of a stored parameter that was last taken before a step; None where it is not whole."""
        place = self._place.get(id(parameter))
        if self.previous is None or place is None or self.previous.is_sampled(place):
            return None
        return self.previous.copies[place]

    @torch.no_grad()
    def delta_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return a copy of a stored tensor's W_t − W_0, in at least float32, on the CPU; None if W_0 is not known.

        Args:
            row: its place on the tensor axis.
            expert: the matrix of a stack; None for a tensor that is one matrix.
        """
        return self._change_of(row, expert, self.reference.piece) if self.has_start(row) else None

    @torch.no_grad()
    def step_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return a copy of a stored tensor's W_t − W_{t−1}, like `delta_of`; None if W_{t−1} is not known whole."""
        if self.previous is None or not self.knows_step or self.previous.is_sampled(row):
            return None
        copy = self.previous.copies[row]
        return self._change_of(row, expert, lambda piece, _: piece.of(copy))

    @torch.no_grad()
    def weights_of(self, row: int, expert: int | None = None) -> Weights | None:
        """Return copies of a stored tensor's W_0 and W_t, in at least float32, on the CPU; None if W_0 is not known.

        Args:
            row: its place on the tensor axis.
            expert: the matrix of a stack; None for a tensor that is one matrix.
        """
        if not self.has_start(row):
            return None
        live, info = self.live[row], self.inventory.stored[row].info
        part = Piece(row) if expert is None else self._expert(row, expert)
        both = (self.reference.piece(part, live), part.of(live))
        return Weights(*(side.reshape(info.rows, info.cols).to("cpu", _wide(live), copy=True) for side in both))

    def _change_of(self, row: int, expert: int | None, before: Callable[[Piece, Tensor], Tensor]) -> Tensor:
        live, info = self.live[row], self.inventory.stored[row].info
        if expert is not None:
            part = self._expert(row, expert)
            change = differences([part.of(live)], [before(part, live)])[0]
            return change.reshape(info.rows, info.cols).to("cpu", _wide(live), copy=True)
        delta = torch.empty(live.shape, dtype=_wide(live))
        for batch in batches([live]):
            for piece in batch:
                start = before(Piece(row, piece.start, piece.stop), live)
                piece.of(delta).copy_(differences([piece.of(live)], [start])[0])
        return delta

    def _expert(self, row: int, expert: int) -> Piece:
        """Return one matrix of a stack (experts, …), or of matrices that lie under one another."""
        length = self.live[row].shape[0] // self.inventory.stored[row].info.matrices
        return Piece(row, expert * length, (expert + 1) * length)


def unknown_updates(previous: PreviousWeights | None, inventory: Inventory) -> list[Unmeasured]:
    """Return the adapted weights whose update is not measured because a factor is only sampled."""
    if previous is None:
        return []
    place = {id(entry.parameter): i for i, entry in enumerate(inventory.stored)}
    sampled = [
        entry.info.name
        for entry in inventory.effective
        if any(previous.is_sampled(place[id(f)]) for a in entry.adapters for f in a.trained if id(f) in place)
    ]
    if not sampled:
        return []
    why = "copies of their factors do not fit into record.copy_limit; raise it"
    return [Unmeasured(f"update of {len(sampled)} adapted weights", why)]


def _form(parameter: Tensor) -> tuple[object, ...]:
    # What ZeRO-3 partitions may be whole or empty at any time; its partition stays.
    held = local(parameter) if is_partitioned(parameter) else parameter
    return held.shape, held.dtype, held.layout, held.device


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
