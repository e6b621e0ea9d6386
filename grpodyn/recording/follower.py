"""The recorder of a rank that writes nothing: it measures its parts of the parameters for the rank that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpodyn.config.record import RecordConfig
from grpodyn.naming.inventory import take_inventory
from grpodyn.naming.selection import select
from grpodyn.probe import Need
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import OF_DISPLACEMENT, Measurement
from grpodyn.recording.opening import Start
from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.plan import Plan
from grpodyn.recording.ranks import Ranks
from grpodyn.recording.reference import copy_shares
from grpodyn.trace.manifest import RunStatus


class Follower:
    """Has the events of a `Session`, and enters each sum over ranks that the first rank's session enters.

    Args:
        config: what is measured.
        start: what training begins with.
        ranks: all ranks.

    Raises:
        NameCollisionError: two parameters have one canonical name.
    """

    writer = None
    """Only the first rank writes."""

    def __init__(self, config: RecordConfig, start: Start, ranks: Ranks) -> None:
        # The boundary logs what fails; the first rank notes on which rank that was.
        self.boundary = Boundary(lambda where, why: None)
        self._ranks = ranks
        self._trainer = start.trainer
        self._plan = Plan(config, first=start.step + 1, last=start.last)
        inventory = select(take_inventory(start.model, ranks.shares), config.only, config.skip)
        self.names = [info.name for info in inventory.infos]
        """Entries of the tensor axis."""
        reference = copy_shares(inventory.stored, config.base_limit, ranks.size, start_step=start.step)
        self._measurement = Measurement(inventory, reference, start.optimizer, self._plan.needs(), config.copy_limit)
        self._needs: frozenset[Need] = frozenset()
        self._in_step = False
        self._done = 0

    def step_begins(self, step: int) -> None:
        """Nothing is held back here."""

    def next_step_begins(self) -> None:
        """No clock runs here."""

    def without_update(self, step: int) -> None:
        """The first rank notes it."""

    def before_optimizer(self, step: int, hidden: str | None = None) -> None:
        """Read gradients and weights before the optimizer's step."""
        self._in_step = False
        current = getattr(self._trainer, "optimizer", None)
        if current is not None:
            self.change_optimizer(current)
        due = self._plan.tensor_probes_at(step)
        self._needs = frozenset().union(*(probe.needs for probe in due.values()))
        if hidden is not None:
            self._needs -= {Need.GRADIENT}
        self._measurement.before_step(self._needs, hidden=hidden is not None)
        self._in_step = True

    def after_optimizer(self, step: int) -> None:
        """Add what the optimizer's step did to this rank's parts."""
        if not self._in_step:
            self._needs = self._needs & OF_DISPLACEMENT
        self._in_step, self._done = False, step
        self._ranks.measured(self.boundary, self._measurement, self._measurement.after_step, self._needs)

    def step_ends(self, step: int, *, stopping: bool, saving: bool) -> None:
        """Add the displacement if this was the last step."""
        if stopping:
            self._add_displacement()

    def change_optimizer(self, optimizer: Any) -> None:
        """Go on with another optimizer of the same model."""
        if not self._measurement.intended.reads(optimizer):
            self._measurement.intended = IntendedSteps(optimizer)

    def log(self, step: int, scalars: Mapping[str, Any], *, saving: bool) -> None:
        """The first rank records its own scalars."""

    def evaluation(self, step: int, metrics: Mapping[str, Any]) -> None:
        """The first rank records its own results."""

    def close(self, status: RunStatus, *, final: bool = True) -> None:
        """Add the displacement of the last step."""
        if status == "finished" and final and self._done:
            self._add_displacement()

    def _add_displacement(self) -> None:
        self._ranks.measured(self.boundary, self._measurement, self._measurement.displacement, OF_DISPLACEMENT)
