"""Rows of the spectra group: when matrices are decomposed, and what becomes of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Inventory
from grpodyn.probe import FloatArray, Need, SpectralChangeProbe, SpectralProbe
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.candidates import candidates
from grpodyn.recording.notes import Notes
from grpodyn.recording.patience import Patience
from grpodyn.recording.plan import Plan
from grpodyn.recording.shard_lead import Lead
from grpodyn.recording.spectra_worker import Matrix, Weights
from grpodyn.recording.sweeps import Candidate, Found, Subject, Sweep, Sweeps, column
from grpodyn.recording.tracked import Tracked
from grpodyn.spectra.singular import singular_values
from grpodyn.spectra.spectral_change import SpectralChange
from grpodyn.spectra.subspaces import compare
from grpodyn.trace.writer import TraceWriter


class SpectralRows:
    """Measures spectra at their own cadence, beside the training thread.

    Args:
        plan: when, and which probes.
        inventory: what is measured.
        tracked: copies displacements and steps.
        boundary: runs what may fail.
        notes: takes what failed.
        writer: takes the rows.
        lead: puts together what is split among ranks; None where nothing is.
    """

    def __init__(
        self,
        plan: Plan,
        inventory: Inventory,
        tracked: Tracked,
        boundary: Boundary,
        notes: Notes,
        writer: TraceWriter,
        lead: Lead | None = None,
    ) -> None:
        self._plan = plan
        self._inventory = inventory
        self._tracked = tracked
        self._boundary = boundary
        self._notes = notes
        self._writer = writer
        self._swept = -1
        matrices = candidates(plan, inventory, tracked, lead)
        self._patience = Patience(plan.config.final_seconds, None if lead is None else lead.still_here)
        self._sweeps = Sweeps(matrices, plan.config.snapshot_limit, self._spectrum, self._emit, self._patience)
        self.left_at_end: list[Unmeasured] = []
        """What there was no time for at the last step."""
        self.matrices = len(matrices)
        """Matrices in a sweep."""

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the thread that decomposes."""
        return self._sweeps.cpu_seconds

    @property
    def skipped(self) -> int:
        """Sweeps that were due before an earlier one was done."""
        return self._sweeps.skipped

    @property
    def copies_next(self) -> bool:
        """Whether an open sweep needs the weights before the next step, whatever is due there."""
        return any(Need.STEP in subject for subject in self._sweeps.pending())

    def needs_at(self, step: int) -> frozenset[Need]:
        """Return what has to be kept before a step for the sweep that begins at it, or goes on."""
        subjects = self._plan.subjects_due(step) | self._sweeps.pending()
        return frozenset({Need.STEP}) if any(Need.STEP in subject for subject in subjects) else frozenset()

    def advance(self, step: int) -> None:
        """Do what is due at a step; at the last step, everything, waiting for it."""
        if step == self._plan.last:
            self.finish(step)
        elif self._sweeps.advance(step, due=self._plan.subjects_due(step)):
            why = "an earlier sweep is not done yet; this sweep, and later ones in the same case, are skipped"
            self._notes.once(step, "spectral sweep skipped", why)

    def finish(self, step: int) -> None:
        """Measure every spectrum at the last step, unless that is done."""
        if self._swept < step and self._plan.spectral_probes:
            self._swept = step
            if not self._tracked.knows_step and any(Need.STEP in subject for subject in self._plan.subjects()):
                why = "training ended at a step that was not known to be the last, and whose start was not kept"
                self._notes.once(step, "no spectrum of the last update", why)
            self._leave(step, self._sweeps.finish(step))

    def hurry(self) -> None:
        """Leave only a few seconds for the last sweep. Does nothing else, for a signal's handler may call it."""
        self._patience.hurry()

    def _leave(self, step: int, lost: set[tuple[int, Subject]]) -> None:
        if lost:
            tensors = len({row for row, _ in lost})
            entry = Unmeasured(f"spectra of {tensors} tensors at the last step", self._patience.reason)
            self.left_at_end.append(entry)
            self._writer.event(step, f"not recorded: {entry.what}", entry.why, matrices=len(lost))

    def close(self) -> None:
        """Write what has been measured of an unfinished sweep, and end the thread."""
        self._sweeps.close()

    def _spectrum(self, candidate: Candidate, matrix: Matrix) -> list[Found]:
        if isinstance(matrix, Weights):
            change = self._boundary.run("decomposition", compare, matrix.before, matrix.after)
            return [Found() if change is None else self._shift(change)]
        values = self._boundary.run("spectrum", singular_values, matrix)
        if values is None:
            return [Found()]
        return [self._found(own, candidate.subject) for own in np.atleast_2d(values)]

    def _found(self, values: FloatArray, subject: Subject) -> Found:
        if not np.isfinite(values).all():
            return Found()
        found = {
            name: value
            for name, probe in self._plan.spectral_probes.items()
            if isinstance(probe, SpectralProbe)
            if probe.needs == subject and (value := self._boundary.run(name, probe.compute, values)) is not None
        }
        # A sweep over many experts holds on to these until it is complete.
        kept = self._plan.config.singular_values
        cut = {
            name: np.array(value[:kept]) if isinstance(value, np.ndarray) else value for name, value in found.items()
        }
        return Found(cut, float(np.square(values).sum()))

    def _shift(self, change: SpectralChange) -> Found:
        if not np.isfinite(change.before).all():
            return Found()
        found = {
            name: value
            for name, probe in self._plan.spectral_probes.items()
            if isinstance(probe, SpectralChangeProbe)
            if (value := self._boundary.run(name, probe.compute, change)) is not None
        }
        return Found(found, float(np.square(change.before).sum()))

    def _emit(self, sweep: Sweep) -> None:
        rows = len(self._inventory.infos)
        values: dict[str, Any] = {
            name: column(
                sweep, name, probe.needs, rows, self._plan.config.singular_values if "k" in probe.dims else None
            )
            for name, probe in self._plan.spectral_probes.items()
        }
        measured = np.full(rows, -1, dtype=np.int64)
        for row, step in sweep.measured_step.items():
            measured[row] = step
        self._writer.add_row("spectra", sweep.step, {**values, "measured_step": measured})
        without = [
            self._inventory.infos[row].name
            for row in sorted({row for (row, _), found in sweep.values.items() if not all(own.values for own in found)})
        ]
        if without:
            why = f"the change of {len(without)} tensors holds NaN or Inf, or its decomposition failed; recorded as nan"
            self._notes.once(sweep.step, "no spectrum", why, tensor=without[0], tensors=len(without))
