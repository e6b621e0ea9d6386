"""How long the way of each tensor and layer is, and how far it has led: a walk that turns back gets nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grpodyn.analysis import Analysis
from grpodyn.errors import MissingDataError

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Way:
    """One tensor or layer, at every step that its displacement was recorded at. Undefined is nan."""

    name: str
    """Canonical name of a tensor; `stack.index` of a layer."""
    path: tuple[float, ...]
    """Σ‖W_t − W_{t−1}‖_F up to the step, unit 1."""
    displacement: tuple[float, ...]
    """‖W_t − W_0‖_F, unit 1."""
    coherence: tuple[float, ...]
    """displacement/path, unit 1: 1 for a straight line, about 1/√steps for a walk at random."""


@dataclass(frozen=True)
class PathAndDisplacement:
    """Path length against displacement over a run."""

    run_id: str
    status: str
    steps: tuple[int, ...]
    """Optimizer steps that the values of every `Way` belong to: those with an update and a displacement."""
    stride: int
    """Most steps that one recorded update stands for; 1 where every step was recorded and the path is exact."""
    tensors: tuple[Way, ...]
    layers: tuple[Way, ...]
    """The tensors of a layer taken as one vector; LoRA factors do not count beside the effective update."""
    notes: tuple[str, ...]


class PathAndDisplacementAnalysis(Analysis):
    """Path length against displacement, by tensor and by layer, over time."""

    name: ClassVar[str] = "path_and_displacement"
    title: ClassVar[str] = "How long each tensor's and layer's way is, how far it has led, and their ratio, over time"
    requires: ClassVar[tuple[str, ...]] = ("update_norm", "delta_norm")
    reference: ClassVar[str] = "‖W_t − W_0‖_F ≤ Σ‖W_s − W_{s−1}‖_F (triangle inequality); equal for a straight line."

    def run(self, run: Run, **options: Any) -> PathAndDisplacement:
        """Return the `PathAndDisplacement` of a run.

        Raises:
            MissingDataError: the run lacks `update_norm` or `delta_norm`, or has no step with finite values of both.
        """
        run.require(*self.requires)
        steps = np.asarray(run.tensors["step"].values, dtype=np.int64)
        update, delta = (np.asarray(run.tensors[probe].values, dtype=np.float64) for probe in self.requires)
        moved = np.isfinite(update).any(axis=1)
        # Between two recorded updates the path is behind the displacement.
        known = moved & np.isfinite(delta).any(axis=1)
        if not known.any():
            raise MissingDataError(
                f"{run.path}: no step has a finite update_norm and delta_norm (status {run.status}, last step "
                f"{run.last_step}); `grpodyn status` says what was skipped and why"
            )
        gaps = _gaps(steps[moved])
        stride = int(gaps.max())
        at = np.searchsorted(steps[moved], steps[known], side="right")

        def way(name: str, norms: Floats, distance: Floats) -> Way:
            # An update that is not known at a step that has others makes the way from there on unknown.
            path = np.concatenate([[0.0], np.cumsum(norms * gaps)])[at]
            ratio = np.divide(distance, path, out=np.full(path.shape, np.nan), where=path > 0.0)
            return Way(name, _numbers(path), _numbers(distance), _numbers(ratio))

        update, delta = update[moved], delta[known]
        names = [str(name) for name in run.tensors["tensor"].values]
        return PathAndDisplacement(
            run_id=str(run.manifest.run_id),
            status=run.status,
            steps=tuple(int(step) for step in steps[known]),
            stride=stride,
            tensors=tuple(way(name, update[:, i], delta[:, i]) for i, name in enumerate(names)),
            layers=tuple(
                way(name, _together(update[:, members]), _together(delta[:, members]))
                for name, members in _layers(run).items()
            ),
            notes=_notes(stride, names, update, delta),
        )


def _gaps(steps: Steps) -> Floats:
    """Return the updates that each recorded one stands for: those since the recorded one before it."""
    between = np.diff(steps).astype(np.float64)
    first = min(float(np.median(between)) if between.size else 1.0, float(max(steps[0], 1)))
    return np.concatenate([[first], between])


def _together(norms: Floats) -> Floats:
    """Return the norm of several tensors as one vector, shape (rows,); nan where one of them is not known."""
    joined: Floats = np.sqrt(np.square(norms).sum(axis=1))
    return joined


def _layers(run: Run) -> dict[str, list[int]]:
    """Return the places of each layer's tensors, by stack and index."""
    layer = np.asarray(run.tensors["layer"].values, dtype=np.int64)
    stacks, sources = run.tensors["stack"].values, run.tensors["source"].values
    members: dict[tuple[str, int], list[int]] = {}
    for i, index in enumerate(layer.tolist()):
        if index >= 0 and sources[i] != "factor":
            members.setdefault((str(stacks[i]), index), []).append(i)
    return {f"{stack}.{index}": places for (stack, index), places in sorted(members.items())}


def _numbers(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _notes(stride: int, names: list[str], update: Floats, delta: Floats) -> tuple[str, ...]:
    notes = []
    if stride > 1:
        notes.append(
            f"up to {stride} steps lie between two values of update_norm: each stands for those before it, and the "
            "path is an estimate (`record.every: {update_norm: 1}` makes it exact)"
        )
    bad = ~(np.isfinite(update).all(axis=0) & np.isfinite(delta).all(axis=0))
    if bad.any():
        first = names[int(np.flatnonzero(bad)[0])]
        notes.append(f"{int(bad.sum())} tensors have steps without a finite norm, the first: {first}")
    return tuple(notes)
