"""The matrices that have a spectrum, and how each is copied for the thread that decomposes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from grpodyn.naming.inventory import Effective, Inventory
from grpodyn.probe import Need
from grpodyn.recording.adapter_changes import Value, change, dense_change
from grpodyn.recording.plan import Plan
from grpodyn.recording.spectra_worker import Matrix, Weights
from grpodyn.recording.sweeps import Candidate, Subject
from grpodyn.recording.tracked import Tracked
from grpodyn.spectra.lowrank import LowRank
from grpodyn.trace.schema import TensorInfo

if TYPE_CHECKING:
    from grpodyn.recording.shard_gathering import Gathering
    from grpodyn.recording.shard_lead import Lead

DISPLACEMENT: Subject = frozenset({Need.DELTA})
STEP: Subject = frozenset({Need.STEP})
WEIGHTS: Subject = frozenset({Need.BASE_WEIGHT, Need.DELTA})
"""W_0 and W_t themselves."""


def candidates(plan: Plan, inventory: Inventory, tracked: Tracked, lead: Lead | None = None) -> list[Candidate]:
    """Return every matrix of a sweep in the order of the tensor axis; what belongs to one tensor is taken together.

    Args:
        plan: which probes.
        inventory: what is measured.
        tracked: copies what this rank holds whole.
        lead: puts together what is split among ranks; None where nothing is.
    """
    subjects = sorted(plan.subjects(), key=sorted)
    rows = [row for row, info in enumerate(inventory.infos) if plan.has_spectrum(info)]
    return [
        candidate
        for row in rows
        for subject in subjects
        if subject != WEIGHTS or has_vectors(plan, inventory.infos[row])
        for candidate in _of_row(row, subject, inventory, tracked, lead)
    ]


def has_vectors(plan: Plan, info: TensorInfo) -> bool:
    """Return whether a matrix is small enough for its singular vectors."""
    return min(info.rows, info.cols) <= plan.config.decomposition_limit


def _of_row(row: int, subject: Subject, inventory: Inventory, tracked: Tracked, lead: Lead | None) -> list[Candidate]:
    info = inventory.infos[row]
    stored = len(inventory.stored)
    if row >= stored:
        return _of_adapted(row, row - stored, subject, inventory, tracked, lead)
    source: Tracked | Gathering = tracked
    if inventory.stored[row].share is not None:
        # No rank holds the matrix.
        if lead is None:
            return []
        source = lead.gathering
    if not (source.has_previous(row) if subject == STEP else source.has_start(row)):
        return []
    copies: dict[Subject, Callable[[int, int | None], Matrix | None]] = {
        DISPLACEMENT: source.delta_of,
        STEP: source.step_of,
        WEIGHTS: source.weights_of,
    }
    size = info.rows * info.cols * (8 if info.dtype == "float64" else 4) * (2 if subject == WEIGHTS else 1)
    # Each expert of a stack is copied by itself: a stack may be larger than every limit.
    experts = range(info.matrices) if info.matrices > 1 else (None,)
    return [Candidate(row, size, partial(copies[subject], row, expert), subject) for expert in experts]


def _of_adapted(
    row: int, place: int, subject: Subject, inventory: Inventory, tracked: Tracked, lead: Lead | None
) -> list[Candidate]:
    info, entry = inventory.infos[row], inventory.effective[place]
    base: Callable[[], Tensor | None] = entry.base_values
    if entry.base_share is not None:
        base = _nothing if lead is None else partial(lead.gathering.base_of, place)
    before = tracked.previous_of if subject == STEP else tracked.start_of
    if entry.is_dense:
        copy = partial(_dense_weights, entry, before) if subject == WEIGHTS else partial(_dense, entry, before)
        return [Candidate(row, 8 * info.rows * info.cols * (2 if subject == WEIGHTS else 1), copy, subject)]
    thin: Callable[[], LowRank | None] = partial(_thin, entry, before)
    if entry.is_split:
        if lead is None:
            return []
        thin = partial(lead.adapters.thin, place, since_start=subject != STEP)
    if subject == WEIGHTS:
        return [Candidate(row, 8 * info.rows * info.cols, partial(_adapted, entry, thin, base), subject)]
    return [Candidate(row, 16 * entry.rank * (info.rows + info.cols), thin, subject)]


def _nothing() -> None:
    return None


@torch.no_grad()
def _thin(entry: Effective, before: Value) -> LowRank | None:
    thin = change(entry, _live, before)
    return None if thin is None else LowRank(thin.left.cpu(), thin.right.cpu())


@torch.no_grad()
def _dense(entry: Effective, before: Value) -> Tensor | None:
    formed = dense_change(entry, _live, before)
    return None if formed is None else formed.cpu()


@torch.no_grad()
def _dense_weights(entry: Effective, before: Value) -> Weights | None:
    formed, base = dense_change(entry, _live, before), entry.base_values()
    if formed is None or base is None:
        return None
    # At its start a DoRA has the norms of the rows for magnitudes, and leaves the weight as it is.
    start = base.detach().to("cpu", torch.float64, copy=True)
    transposed = getattr(entry.adapters[0].layer, "fan_in_fan_out", False)
    return Weights(start, start + (formed.T if transposed else formed).cpu())


def _live(factor: nn.Parameter) -> Tensor:
    return factor.detach()


@torch.no_grad()
def _adapted(
    entry: Effective, change_since_start: Callable[[], LowRank | None], base_values: Callable[[], Tensor | None]
) -> Weights | None:
    """Return the frozen weight, and what the adapters have made of it; None where that is not known."""
    thin = change_since_start() if entry.is_base_known else None
    base = base_values() if thin is not None else None
    if thin is None or base is None or base.dim() != 2:
        return None
    before = base.detach().to("cpu", torch.float64)
    delta = thin.left @ thin.right
    # Adapters are (out, in); some layers store their weight the other way round.
    transposed = entry.info.layout.startswith("in_out") or tuple(before.shape) != tuple(delta.shape)
    return Weights(before, before + (delta.T if transposed else delta))
