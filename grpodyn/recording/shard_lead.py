"""What the first rank's session asks of all ranks among which a model is split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from grpodyn.config.record import RecordConfig
from grpodyn.naming.inventory import Inventory
from grpodyn.probe import Need
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.notes import Notes
from grpodyn.recording.probe_values import frozen_squares, frozen_sums
from grpodyn.recording.ranks import Ranks, Task
from grpodyn.recording.saving import whole_state
from grpodyn.recording.shard_adapters import SplitAdapters
from grpodyn.recording.shard_forwards import ask_forward
from grpodyn.recording.shard_gathering import Gathering
from grpodyn.recording.shard_sums import Measure, added, added_frozen

Sums = dict[Need, Tensor]


class Lead:
    """Leads the meetings of the ranks.

    Args:
        ranks: all ranks.
        inventory: what is measured.
        measurement: the first rank's.
        boundary: catches what fails on this rank.
        notes: takes what failed on any.
        config: limits of what is put together at a time.
    """

    def __init__(
        self,
        ranks: Ranks,
        inventory: Inventory,
        measurement: Measurement,
        boundary: Boundary,
        notes: Notes,
        config: RecordConfig,
    ) -> None:
        self._ranks = ranks
        self._inventory = inventory
        self._measurement = measurement
        self._boundary = boundary
        self._notes = notes
        self.gathering = Gathering(ranks, inventory, measurement, boundary)
        """Puts matrices together."""
        self.adapters = SplitAdapters(inventory, measurement, self.gathering, config.snapshot_limit)
        """Puts factors together."""

    @property
    def is_sound(self) -> bool:
        """Whether every rank took part in the last sum."""
        return not (self._ranks.missing or self._ranks.failed)

    @contextmanager
    def meeting(self, step: int, copies_next: Callable[[], bool]) -> Iterator[None]:
        """Keep the other ranks for the block.

        Args:
            step: the step at which they meet.
            copies_next: tells, at the end, whether a spectral sweep needs the weights before the next step.
        """
        with self._ranks.meeting():
            try:
                yield
            finally:
                self._ranks.parting = int(copies_next())
                if self.gathering.lost:
                    why = "a rank failed, whose log says why, or is gone; recorded as nan"
                    names = sorted(self.gathering.lost)
                    self._notes.once(step, "not put together", why, tensor=names[0], tensors=len(names))

    def sums(self, step: int, task: Task, measure: Measure, needs: frozenset[Need]) -> Sums:
        """Return what `measure` returns, over all ranks.

        Args:
            step: the step.
            task: what the other ranks do meanwhile.
            measure: measures this rank's parts.
            needs: what is measured.
        """
        self._ranks.tell(task)
        found = added(self._ranks, self._boundary, self._measurement, measure, needs)
        if self._ranks.failed is not None:
            self._notes.once(step, "sharded parameters not measured", f"{self._ranks.failed}; recorded as nan")
        elif self._ranks.missing:
            why = f"it failed on ranks {self._ranks.missing}, whose logs say why; recorded as nan"
            self._notes.once(step, "measurement failed on a rank", why)
        sound = list(self._ranks.missing)
        self._boundary.run("effective updates", self.adapters.fill, found, needs)
        self._ranks.missing = sound or self._ranks.missing
        return found

    def frozen(self) -> Sums:
        """Return the sums of parameters that are not trained, over all ranks."""
        entries = self._inventory.frozen
        if all(entry.share is None for entry in entries):
            return frozen_sums(entries)
        self._ranks.tell(Task.FROZEN_SUMS)
        squares = added_frozen(
            self._ranks, self._boundary, lambda: frozen_squares(entries, is_first=True), len(entries)
        )
        nowhere = torch.full((len(entries),), torch.nan, dtype=torch.float64)
        return frozen_sums(entries, nowhere if squares is None else squares)

    def forward(self, inputs: Mapping[str, Tensor]) -> bool:
        """Let the other ranks run the model too; return whether they do."""
        return ask_forward(self._ranks, inputs)

    def still_here(self) -> None:
        """Let the other ranks know that this one is only slow."""
        self._ranks.still_here()

    def state(self, model: nn.Module) -> dict[str, Tensor] | None:
        """Return the whole state of the model; None if the other ranks are not there."""
        return whole_state(model) if self._ranks.tell(Task.SAVE) else None
