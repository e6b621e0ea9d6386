"""What is measured at which step, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from grpodyn.config.record import RecordConfig, cadence_text, due
from grpodyn.naming.inventory import Inventory
from grpodyn.probe import ActivationProbe, Need, Probe, SpectralChangeProbe, SpectralProbe, TensorProbe
from grpodyn.trace.schema import ArraySpec, TensorInfo

_SPECTRAL_KINDS = ("linear", "expert")
_SPECTRAL_KINDS_ON_REQUEST = ("embedding", "head")


@dataclass(frozen=True)
class Plan:
    """The probes of a recording with their cadence, and the first and the last step."""

    config: RecordConfig
    first: int
    last: int | None
    """Known in advance where training ends by itself; None where it does not."""
    tensor_probes: dict[str, TensorProbe] = field(init=False)
    activation_probes: dict[str, ActivationProbe] = field(init=False)
    spectral_probes: dict[str, SpectralProbe | SpectralChangeProbe] = field(init=False)

    def __post_init__(self) -> None:
        chosen = self.config.chosen()
        activation = {n: p for n, p in chosen.items() if isinstance(p, ActivationProbe)}
        tensor = {n: p for n, p in chosen.items() if isinstance(p, TensorProbe) and n not in activation}
        object.__setattr__(self, "tensor_probes", tensor)
        object.__setattr__(self, "activation_probes", activation)
        spectral = {n: p for n, p in chosen.items() if isinstance(p, SpectralProbe | SpectralChangeProbe)}
        object.__setattr__(self, "spectral_probes", spectral)

    @property
    def probes(self) -> dict[str, Probe]:
        """All probes by name."""
        return {**self.tensor_probes, **self.activation_probes, **self.spectral_probes}

    def is_due(self, probe: Probe, step: int) -> bool:
        """Return whether a probe is measured at a step."""
        return due(self.config.cadence(probe), step, first=self.first, last=self.last)

    def tensor_probes_at(self, step: int) -> dict[str, TensorProbe]:
        """Return the per-tensor and per-layer probes that are measured at a step."""
        return {name: probe for name, probe in self.tensor_probes.items() if self.is_due(probe, step)}

    def activation_probes_at(self, step: int) -> dict[str, ActivationProbe]:
        """Return the probes of activations that are measured at a step."""
        return {name: probe for name, probe in self.activation_probes.items() if self.is_due(probe, step)}

    def subjects(self) -> set[frozenset[Need]]:
        """Return what spectral probes look at: their needs, each set once."""
        return {probe.needs for probe in self.spectral_probes.values()}

    def subjects_due(self, step: int) -> set[frozenset[Need]]:
        """Return what the spectral sweep that begins at a step looks at; nothing if none does."""
        return {probe.needs for probe in self.spectral_probes.values() if self.is_due(probe, step)}

    def forms_dense(self, step: int) -> bool:
        """Return whether updates that have no thin factors (of DoRA) are formed: where spectra are, or at the ends."""
        return step in (self.first, self.last) or bool(self.subjects_due(step))

    def needs(self) -> frozenset[Need]:
        """Return what any probe needs at any step."""
        return frozenset().union(*(probe.needs for probe in self.probes.values()))

    def arrays(self, group: str) -> dict[str, ArraySpec]:
        """Return the trace's arrays of a group."""
        return {
            name: ArraySpec(
                probe.dims,
                probe.dtype,
                probe.unit,
                {"long_name": probe.title, "reference": probe.reference, **probe.constants},
            )
            for name, probe in self.probes.items()
            if probe.group == group
        }

    def has_spectrum(self, info: TensorInfo) -> bool:
        """Return whether a tensor's displacement is decomposed."""
        kinds = _SPECTRAL_KINDS + (_SPECTRAL_KINDS_ON_REQUEST if self.config.spectra_embeddings else ())
        return bool(self.spectral_probes) and info.kind in kinds and info.cols > 1


@dataclass(frozen=True)
class LayerMap:
    """Which rows of the tensor axis make up each layer."""

    layers: list[int]
    stacks: list[str]
    rows: list[list[int]]
    """Places on the tensor axis by layer. A LoRA factor is none: its effective update is."""
    frozen: list[list[int]]
    """Places among the frozen parameters by layer."""
    complete: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether every trained part of the layer is measured."""


def map_layers(inventory: Inventory) -> LayerMap:
    """Return the layers of a model in order of stack and index."""
    infos = inventory.infos
    places = {(info.stack, info.layer) for info in infos} | {(f.stack, f.layer) for f in inventory.frozen}
    keys = sorted(key for key in places if key[1] >= 0)
    rows: dict[tuple[str, int], list[int]] = {key: [] for key in keys}
    frozen: dict[tuple[str, int], list[int]] = {key: [] for key in keys}
    for row, info in enumerate(infos):
        if info.layer >= 0 and info.source != "factor":
            rows[info.stack, info.layer].append(row)
    for i, entry in enumerate(inventory.frozen):
        frozen[entry.stack, entry.layer].append(i)
    broken = {(entry.stack, entry.layer) for entry in inventory.unmeasured}
    return LayerMap(
        [layer for _, layer in keys],
        [stack for stack, _ in keys],
        [rows[key] for key in keys],
        [frozen[key] for key in keys],
        np.array([key not in broken for key in keys], dtype=np.bool_),
    )


def describe_cadence(plan: Plan) -> str:
    """Return the cadences in words, probes of one cadence together."""
    by_cadence: dict[int, list[str]] = {}
    for name, probe in plan.probes.items():
        by_cadence.setdefault(plan.config.cadence(probe), []).append(name)
    return "; ".join(
        f"{', '.join(names)} {cadence_text(cadence)}" for cadence, names in sorted(by_cadence.items(), key=_order)
    )


def _order(item: tuple[int, Sequence[str]]) -> float:
    return item[0] or float("inf")
