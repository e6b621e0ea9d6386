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
from grpodyn.recording.probe_values import frozen_squares
from grpodyn.recording.ranks import Answers, Ranks, Task
from grpodyn.recording.saving import whole_state
from grpodyn.recording.shard_forwards import join_forward
from grpodyn.recording.shard_gathering import Gathering
from grpodyn.recording.shard_reference import establish_shares
from grpodyn.recording.shard_sums import added, added_frozen
from grpodyn.trace.manifest import RunStatus


class Follower:
    """Has the events of a `Session`, and does at each of its meetings what the first rank's session asks for.

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
        self._model, self._trainer = start.model, start.trainer
        self._plan = Plan(config, first=start.step + 1, last=start.last)
        self._inventory = select(take_inventory(start.model, ranks.shares), config.only, config.skip)
        self.names = [info.name for info in self._inventory.infos]
        """Entries of the tensor axis."""
        stored, model_config = self._inventory.stored, getattr(start.model, "config", None)
        reference = establish_shares(stored, model_config, config.base_limit, ranks.size, start_step=start.step)
        self._measurement = Measurement(
            self._inventory, reference, start.optimizer, self._plan.needs(), config.copy_limit
        )
        self._gathering = Gathering(ranks, self._inventory, self._measurement, self.boundary)
        self.table = self._gathering.table
        """What the other ranks are to know of this one."""
        self._needs: frozenset[Need] = frozenset()
        self._copies_next = False
        self._is_first_step = True
        self._in_step = False
        self._was_read = True
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
        if self._is_first_step and self._plan.activation_probes:
            self._attend()
        self._is_first_step = False
        current = getattr(self._trainer, "optimizer", None)
        if current is not None:
            self.change_optimizer(current)
        due = self._plan.tensor_probes_at(step)
        self._needs = frozenset().union(*(probe.needs for probe in due.values()))
        if self._copies_next or any(Need.STEP in subject for subject in self._plan.subjects_due(step)):
            self._needs |= {Need.STEP}
        if hidden is not None:
            self._needs -= {Need.GRADIENT}
        self._measurement.before_step(self._needs, hidden=hidden is not None)
        self._in_step = True

    def after_optimizer(self, step: int) -> None:
        """Measure what the optimizer's step did to this rank's parts."""
        self._was_read = self._in_step
        if not self._in_step:
            self._needs = self._needs & OF_DISPLACEMENT
        self._in_step, self._done = False, step
        self._attend()

    def step_ends(self, step: int, *, stopping: bool, saving: bool) -> None:
        """Help to complete the last step, if this was it."""
        if stopping:
            self._attend()

    def change_optimizer(self, optimizer: Any) -> None:
        """Go on with another optimizer of the same model."""
        if not self._measurement.intended.reads(optimizer):
            self._measurement.intended = IntendedSteps(optimizer)

    def log(self, step: int, scalars: Mapping[str, Any], *, saving: bool) -> None:
        """The first rank records its own scalars."""

    def evaluation(self, step: int, metrics: Mapping[str, Any]) -> None:
        """The first rank records its own results."""

    def save(self) -> None:
        """Help to save the model."""
        self._attend()

    def close(self, status: RunStatus, *, final: bool = True) -> None:
        """Help to complete the last step."""
        if status == "finished" and final and not self._in_step and self._done:
            self._attend()

    def _attend(self) -> None:
        self._copies_next = bool(self._ranks.attend(self._answers))

    @property
    def _answers(self) -> Answers:
        return {
            Task.STEP_SUMS: self._add_step,
            Task.DISPLACEMENT_SUMS: self._add_displacement,
            Task.FROZEN_SUMS: self._add_frozen,
            Task.PART: self._gathering.send_part,
            Task.FACTORS: self._gathering.send_factors,
            Task.FORWARD: self._forward,
            Task.SAVE: self._save,
        }

    def _add_step(self, *_: int) -> None:
        measure, read = self._measurement.after_step, self._was_read
        added(self._ranks, self.boundary, self._measurement, measure, self._needs, was_read=read)

    def _add_displacement(self, *_: int) -> None:
        added(self._ranks, self.boundary, self._measurement, self._measurement.displacement, OF_DISPLACEMENT)

    def _add_frozen(self, *_: int) -> None:
        frozen = self._inventory.frozen
        added_frozen(self._ranks, self.boundary, lambda: frozen_squares(frozen, is_first=False), len(frozen))

    def _forward(self, rows: int, tokens: int, *_: int) -> None:
        join_forward(self._ranks, self.boundary, self._model, rows, tokens)

    def _save(self, *_: int) -> None:
        self.boundary.run("parts of the model", whole_state, self._model)
