"""The matrices that have a spectrum, and how each is copied for the thread that decomposes it."""

from __future__ import annotations

from functools import partial

import torch

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.probe import Need
from grpodyn.recording.adapter_changes import Value, change
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.plan import Plan
from grpodyn.recording.sweeps import Candidate, Subject
from grpodyn.spectra.lowrank import LowRank

DISPLACEMENT: Subject = frozenset({Need.DELTA})
STEP: Subject = frozenset({Need.STEP})


def candidates(plan: Plan, inventory: Inventory, measurement: Measurement) -> list[Candidate]:
    """Return every matrix of a sweep in the order of the tensor axis; what belongs to one tensor is taken together."""
    subjects = sorted(plan.subjects(), key=sorted)
    rows = [row for row, info in enumerate(inventory.infos) if plan.has_spectrum(info)]
    return [
        candidate for row in rows for subject in subjects for candidate in _of_row(row, subject, inventory, measurement)
    ]


def _of_row(row: int, subject: Subject, inventory: Inventory, measurement: Measurement) -> list[Candidate]:
    info = inventory.infos[row]
    stored = len(inventory.stored)
    if row >= stored:
        entry = inventory.effective[row - stored]
        before = measurement.start_of if subject == DISPLACEMENT else measurement.previous_of
        rank = sum(2 * adapter.b.shape[-1] for adapter in entry.adapters)
        return [Candidate(row, 8 * rank * (info.rows + info.cols), partial(_thin, entry, before), subject)]
    if not (measurement.has_start(row) if subject == DISPLACEMENT else measurement.has_previous(row)):
        return []
    copy = measurement.delta_of if subject == DISPLACEMENT else measurement.step_of
    size = info.rows * info.cols * (8 if info.dtype == "float64" else 4)
    # Each expert of a stack is copied by itself: a stack may be larger than every limit.
    experts = range(info.matrices) if info.matrices > 1 else (None,)
    return [Candidate(row, size, partial(copy, row, expert), subject) for expert in experts]


@torch.no_grad()
def _thin(entry: Effective, before: Value) -> LowRank | None:
    thin = change(entry, lambda factor: factor.detach(), before)
    return None if thin is None else LowRank(thin.left.cpu(), thin.right.cpu())
