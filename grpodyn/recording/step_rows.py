"""One step's rows of the tensors and layers groups: computed after the update, completed if it was the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class _Held:
    """A step's rows, held until the next step begins: if training ends first, the displacement is added to them."""

    step: int
    rows: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    """Values by group and array."""


class StepRows:
    """Turns the sums of a step into rows, and writes them once it is known whether training goes on.

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
        self._held: _Held | None = None
        self._measure_frozen = frozen or partial(frozen_sums, inventory.frozen)
        self._frozen: Sums | None = None

    def hold(self, step: int, sums: Sums) -> None:
        """Compute what is due at a step, and hold it."""
        self._held = _Held(step)
        self._compute(self._held, self._plan.tensor_probes_at(step), sums)
        self._add_activations(self._held, self._plan.activation_probes_at(step))

    def complete(self, displacement: Callable[[frozenset[Need]], Sums]) -> None:
        """Add the displacement to the held rows, if it was not due at their step.

        Args:
            displacement: measures it; given what is needed of it.
        """
        held = self._held
        if held is None:
            return
        present = {name for values in held.rows.values() for name in values}
        probes = self._plan.tensor_probes.items()
        left = {name: probe for name, probe in probes if name not in present and probe.needs <= OF_DISPLACEMENT}
        if left:
            needs = frozenset().union(*(probe.needs for probe in left.values()))
            self._compute(held, left, displacement(needs))
        unseen = {name: probe for name, probe in self._plan.activation_probes.items() if name not in present}
        self._add_activations(held, unseen)

    def release(self) -> None:
        """Write the held rows."""
        held, self._held = self._held, None
        if held is not None:
            for group, values in held.rows.items():
                self._writer.add_row(group, held.step, values)

    def _compute(self, held: _Held, probes: Mapping[str, TensorProbe], sums: Sums) -> None:
        for name, probe in probes.items():
            if probe.group == "layers":
                size, measure = len(self._layers.layers), self._layer_values
            else:
                size, measure = len(self._inventory.infos), self._tensor_values
            if size:
                values = self._boundary.run(name, measure, probe, sums)
                held.rows.setdefault(probe.group, {})[name] = np.full(size, np.nan) if values is None else values

    def _tensor_values(self, probe: TensorProbe, sums: Sums) -> FloatArray:
        return tensor_values(probe, sums, len(self._inventory.infos))

    def _layer_values(self, probe: TensorProbe, sums: Sums) -> FloatArray:
        if self._frozen is None:
            self._frozen = self._measure_frozen()
        return layer_values(probe, sums, self._layers, self._frozen)

    def _add_activations(self, held: _Held, probes: Mapping[str, ActivationProbe]) -> None:
        if not probes or self._activations is None:
            return
        sums = self._boundary.run("activations", self._activations.sums)
        if self._activations.unavailable is not None:
            self._notes.once(held.step, "no activations", self._activations.unavailable)
        for name, probe in probes.items():
            size = len(self._layers.layers)
            values = self._boundary.run(name, tensor_values, probe, sums, size) if sums is not None else None
            held.rows.setdefault("layers", {})[name] = np.full(size, np.nan) if values is None else values
