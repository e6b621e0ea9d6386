"""Rows of the spectra group: which matrices have a spectrum, how they are copied, and what becomes of their values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.probe import FloatArray
from grpodyn.recording.adapter_changes import change
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.notes import Notes
from grpodyn.recording.plan import Plan
from grpodyn.recording.spectra_worker import Matrix
from grpodyn.recording.sweeps import Candidate, Found, Sweep, Sweeps, column
from grpodyn.spectra.lowrank import LowRank
from grpodyn.spectra.singular import singular_values
from grpodyn.trace.writer import TraceWriter


class SpectralRows:
    """Measures spectra at their own cadence, beside the training thread.

    Args:
        plan: when, and which probes.
        inventory: what is measured.
        measurement: reads displacements.
        boundary: runs what may fail.
        notes: takes what failed.
        writer: takes the rows.
    """

    def __init__(
        self,
        plan: Plan,
        inventory: Inventory,
        measurement: Measurement,
        boundary: Boundary,
        notes: Notes,
        writer: TraceWriter,
    ) -> None:
        self._plan = plan
        self._inventory = inventory
        self._measurement = measurement
        self._boundary = boundary
        self._notes = notes
        self._writer = writer
        self._swept = -1
        candidates = self._candidates()
        self._sweeps = Sweeps(candidates, plan.config.snapshot_limit, self._spectrum, self._emit)
        self.matrices = len(candidates)
        """Matrices in a sweep."""

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the thread that decomposes."""
        return self._sweeps.cpu_seconds

    @property
    def skipped(self) -> int:
        """Sweeps that were due before an earlier one was done."""
        return self._sweeps.skipped

    def advance(self, step: int) -> None:
        """Do what is due at a step; at the last step, everything, waiting for it."""
        if step == self._plan.last:
            self.finish(step)
        elif self._sweeps.advance(step, due=self._plan.sweep_due(step)):
            why = "an earlier sweep is not done yet; this sweep, and later ones in the same case, are skipped"
            self._notes.once(step, "spectral sweep skipped", why)

    def finish(self, step: int) -> None:
        """Measure every spectrum at the last step, unless that is done."""
        if self._swept < step and self._plan.spectral_probes:
            self._swept = step
            self._sweeps.finish(step)

    def close(self) -> None:
        """Write what has been measured of an unfinished sweep, and end the thread."""
        self._sweeps.close()

    def _candidates(self) -> list[Candidate]:
        candidates = []
        stored = len(self._inventory.stored)
        for row, info in enumerate(self._inventory.infos):
            if not self._plan.has_spectrum(info):
                continue
            if row < stored:
                if self._measurement.has_start(row):
                    size = info.rows * info.cols * (8 if info.dtype == "float64" else 4)
                    # Each expert of a stack is copied by itself: a stack may be larger than every limit.
                    experts = range(info.matrices) if info.matrices > 1 else (None,)
                    snapshots = (partial(self._measurement.delta_of, row, expert) for expert in experts)
                    candidates += [Candidate(row, size, snapshot) for snapshot in snapshots]
            else:
                entry = self._inventory.effective[row - stored]
                rank = sum(2 * adapter.b.shape[-1] for adapter in entry.adapters)
                size = 8 * rank * (info.rows + info.cols)
                candidates.append(Candidate(row, size, partial(self._thin_delta, entry)))
        return candidates

    @torch.no_grad()
    def _thin_delta(self, entry: Effective) -> LowRank | None:
        thin = change(entry, lambda factor: factor.detach(), self._measurement.start_of)
        return None if thin is None else LowRank(thin.left.cpu(), thin.right.cpu())

    def _spectrum(self, row: int, matrix: Matrix) -> list[Found]:
        values = self._boundary.run("spectrum", singular_values, matrix)
        return [Found()] if values is None else [self._found(own) for own in np.atleast_2d(values)]

    def _found(self, values: FloatArray) -> Found:
        if not np.isfinite(values).all():
            return Found()
        found = {
            name: value
            for name, probe in self._plan.spectral_probes.items()
            if (value := self._boundary.run(name, probe.compute, values)) is not None
        }
        # A sweep over many experts holds on to these until it is complete.
        kept = self._plan.config.singular_values
        cut = {
            name: np.array(value[:kept]) if isinstance(value, np.ndarray) else value for name, value in found.items()
        }
        return Found(cut, float(np.square(values).sum()))

    def _emit(self, sweep: Sweep) -> None:
        rows = len(self._inventory.infos)
        values: dict[str, Any] = {
            name: column(sweep, name, rows, self._plan.config.singular_values if "k" in probe.dims else None)
            for name, probe in self._plan.spectral_probes.items()
        }
        measured = np.full(rows, -1, dtype=np.int64)
        for row, step in sweep.measured_step.items():
            measured[row] = step
        self._writer.add_row("spectra", sweep.step, {**values, "measured_step": measured})
        without = [
            self._inventory.infos[row].name
            for row, found in sorted(sweep.values.items())
            if not all(own.values for own in found)
        ]
        if without:
            why = f"W_t − W_0 of {len(without)} tensors holds NaN or Inf, or its decomposition failed; recorded as nan"
            self._notes.once(sweep.step, "no spectrum", why, tensor=without[0], tensors=len(without))
