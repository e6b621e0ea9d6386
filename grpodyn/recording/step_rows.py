"""One step's rows of the tensors and layers groups: written after the update, completed if it was the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from torch import Tensor

from grpodyn.naming.inventory import Inventory
from grpodyn.probe import ActivationProbe, FloatArray, Need, TensorProbe
from grpodyn.recording.activations import Activations
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import OF_DISPLACEMENT
from grpodyn.recording.notes import Notes
from grpodyn.recording.plan import LayerMap, Plan
from grpodyn.recording.probe_values import frozen_sums, layer_values, tensor_values
from grpodyn.trace.writer import TraceWriter

Sums = dict[Need, Tensor]


Rows = dict[str, dict[str, FloatArray]]
"""Values by group and array."""


class StepRows:
    """Turns the sums of a step into rows.

    They are written at once, whether training goes on or not: what waits in memory is lost with the process. If it was
    the last step, its displacement is added to the rows that are there.

    Args:
        plan: which probes.
        inventory: what is measured.
        layers: which tensors make up a layer.
        activations: what the blocks return; None where no probe looks at it.
        boundary: runs what may fail.
        notes: takes what failed.
        writer: takes the rows.
        frozen: measures the parameters that do not move; None where this rank holds them whole.
    """

    def __init__(
        self,
        plan: Plan,
        inventory: Inventory,
        layers: LayerMap,
        activations: Activations | None,
        boundary: Boundary,
        notes: Notes,
        writer: TraceWriter,
        frozen: Callable[[], Sums] | None = None,
    ) -> None:
        self._plan = plan
        self._inventory = inventory
        self._layers = layers
        self._activations = activations
        self._boundary = boundary
        self._notes = notes
        self._writer = writer
        self._step: int | None = None
        self._written: dict[str, set[str]] = {}
        """Arrays of the last step's rows, by group."""
        self._measure_frozen = frozen or partial(frozen_sums, inventory.frozen)
        self._frozen: Sums | None = None

    def begin(self) -> None:
        """Leave the rows of the step before as they are: it was not the last."""
        self._step = None

    def write(self, step: int, sums: Sums) -> None:
        """Compute and write what is due at a step."""
        rows = self._computed(self._plan.tensor_probes_at(step), sums)
        self._add_activations(rows, step, self._plan.activation_probes_at(step))
        for group, values in rows.items():
            self._writer.add_row(group, step, values)
        self._step, self._written = step, {group: set(values) for group, values in rows.items()}

    def complete(self, displacement: Callable[[frozenset[Need]], Sums]) -> None:
        """Add the displacement to the rows of the last step, if it was not due there.

        Args:
            displacement: measures it; given what is needed of it.
        """
        if self._step is None:
            return
        step, present = self._step, {name for names in self._written.values() for name in names}
        probes = self._plan.tensor_probes.items()
        left = {name: probe for name, probe in probes if name not in present and probe.needs <= OF_DISPLACEMENT}
        rows: Rows = {}
        if left:
            needs = frozenset().union(*(probe.needs for probe in left.values()))
            rows = self._computed(left, displacement(needs))
        unseen = {name: probe for name, probe in self._plan.activation_probes.items() if name not in present}
        self._add_activations(rows, step, unseen)
        for group, values in rows.items():
            put = self._writer.amend_row if group in self._written else self._writer.add_row
            put(group, step, values)
        # Training may end in more than one way at once; once is enough.
        self._step = None

    def _computed(self, probes: Mapping[str, TensorProbe], sums: Sums) -> Rows:
        rows: Rows = {}
        for name, probe in probes.items():
            if probe.group == "layers":
                size, measure = len(self._layers.layers), self._layer_values
            else:
                size, measure = len(self._inventory.infos), self._tensor_values
            if size:
                values = self._boundary.run(name, measure, probe, sums)
                rows.setdefault(probe.group, {})[name] = np.full(size, np.nan) if values is None else values
        return rows

    def _tensor_values(self, probe: TensorProbe, sums: Sums) -> FloatArray:
        return tensor_values(probe, sums, len(self._inventory.infos))

    def _layer_values(self, probe: TensorProbe, sums: Sums) -> FloatArray:
        if self._frozen is None:
            self._frozen = self._measure_frozen()
        return layer_values(probe, sums, self._layers, self._frozen)

    def _add_activations(self, rows: Rows, step: int, probes: Mapping[str, ActivationProbe]) -> None:
        if not probes or self._activations is None:
            return
        sums = self._boundary.run("activations", self._activations.sums)
        if self._activations.unavailable is not None:
            self._notes.once(step, "no activations", self._activations.unavailable)
        for name, probe in probes.items():
            size = len(self._layers.layers)
            values = self._boundary.run(name, tensor_values, probe, sums, size) if sums is not None else None
            rows.setdefault("layers", {})[name] = np.full(size, np.nan) if values is None else values
