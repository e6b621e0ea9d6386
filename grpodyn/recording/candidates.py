"""The matrices that have a spectrum, and how each is copied for the thread that decomposes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.probe import Need
from grpodyn.recording.adapter_changes import Value, change
from grpodyn.recording.plan import Plan
from grpodyn.recording.spectra_worker import Matrix, Weights
from grpodyn.recording.sweeps import Candidate, Subject
from grpodyn.recording.tracked import Tracked
from grpodyn.spectra.lowrank import LowRank
from grpodyn.trace.schema import TensorInfo

DISPLACEMENT: Subject = frozenset({Need.DELTA})
STEP: Subject = frozenset({Need.STEP})
WEIGHTS: Subject = frozenset({Need.BASE_WEIGHT, Need.DELTA})
"""W_0 and W_t themselves."""


def candidates(plan: Plan, inventory: Inventory, tracked: Tracked) -> list[Candidate]:
    """Return every matrix of a sweep in the order of the tensor axis; what belongs to one tensor is taken together."""
    subjects = sorted(plan.subjects(), key=sorted)
    rows = [row for row, info in enumerate(inventory.infos) if plan.has_spectrum(info)]
    return [
        candidate
        for row in rows
        for subject in subjects
        if subject != WEIGHTS or has_vectors(plan, inventory.infos[row])
        for candidate in _of_row(row, subject, inventory, tracked)
    ]


def has_vectors(plan: Plan, info: TensorInfo) -> bool:
    """Return whether a matrix is small enough for its singular vectors."""
    return min(info.rows, info.cols) <= plan.config.decomposition_limit


def _of_row(row: int, subject: Subject, inventory: Inventory, tracked: Tracked) -> list[Candidate]:
    info = inventory.infos[row]
    stored = len(inventory.stored)
    if row >= stored:
        entry = inventory.effective[row - stored]
        if subject == WEIGHTS:
            size = 8 * info.rows * info.cols
            return [Candidate(row, size, partial(_adapted, entry, tracked.start_of), subject)]
        before = tracked.start_of if subject == DISPLACEMENT else tracked.previous_of
        rank = sum(2 * adapter.b.shape[-1] for adapter in entry.adapters)
        return [Candidate(row, 8 * rank * (info.rows + info.cols), partial(_thin, entry, before), subject)]
    if inventory.stored[row].share is not None:
        # No rank holds the matrix.
        return []
    if not (tracked.has_previous(row) if subject == STEP else tracked.has_start(row)):
        return []
    copies: dict[Subject, Callable[[int, int | None], Matrix | None]] = {
        DISPLACEMENT: tracked.delta_of,
        STEP: tracked.step_of,
        WEIGHTS: tracked.weights_of,
    }
    size = info.rows * info.cols * (8 if info.dtype == "float64" else 4) * (2 if subject == WEIGHTS else 1)
    # Each expert of a stack is copied by itself: a stack may be larger than every limit.
    experts = range(info.matrices) if info.matrices > 1 else (None,)
    return [Candidate(row, size, partial(copies[subject], row, expert), subject) for expert in experts]


@torch.no_grad()
def _thin(entry: Effective, before: Value) -> LowRank | None:
    thin = change(entry, lambda factor: factor.detach(), before)
    return None if thin is None else LowRank(thin.left.cpu(), thin.right.cpu())


@torch.no_grad()
def _adapted(entry: Effective, start: Value) -> Weights | None:
    """Return the frozen weight, and what the adapters have made of it; None where that is not known."""
    thin, base = change(entry, lambda factor: factor.detach(), start), entry.base_values()
    if thin is None or base is None or base.dim() != 2:
        return None
    before = base.detach().to("cpu", torch.float64)
    delta = (thin.left @ thin.right).to("cpu")
    # Adapters are (out, in); some layers store their weight the other way round.
    transposed = entry.info.layout.startswith("in_out") or tuple(before.shape) != tuple(delta.shape)
    return Weights(before, before + (delta.T if transposed else delta))
