"""Sums over the ranks of what each measures of its parts: squared norms are added before a root is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from grpodyn.probe import Need
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.ranks import Ranks

_ADDED = [need for need in Need if need is not Need.ELEMENTS]
"""What ranks add up; how many elements a whole parameter has is known to each of them."""

Measure = Callable[[Iterable[Need]], dict[Need, Tensor]]


def added(
    ranks: Ranks,
    boundary: Boundary,
    measurement: Measurement,
    measure: Measure,
    needs: Iterable[Need],
    *,
    was_read: bool = True,
) -> dict[Need, Tensor]:
    """Measure this rank's parts and return the sums over all ranks. Every rank calls it, at the same points.

    Args:
        ranks: all ranks.
        boundary: catches what fails on this rank, whose sums are nan then.
        measurement: knows the parts.
        measure: returns the sums of this rank, float64 of shape (rows,) by need.
        needs: what it measures.
        was_read: whether this rank has read what it was to read before the step.

    Returns:
        What `measure` returns, over all ranks: nan where any rank could not measure its part.
    """
    own = boundary.run("measurement", measure, needs)
    nowhere = torch.full((measurement.rows,), torch.nan, dtype=torch.float64)
    found = dict.fromkeys(Need, nowhere) if own is None else own
    sums = torch.stack([found.get(need, nowhere) for need in _ADDED])
    # What another rank counts, and an empty part, add nothing.
    for place, need in enumerate(_ADDED):
        sums[place, ~measurement.counted(need, is_first=ranks.rank == 0)] = 0.0
    flags = torch.zeros(ranks.size, dtype=torch.float64)
    flags[ranks.rank] = own is None or not was_read
    packed = torch.cat([sums.flatten(), flags])
    if not ranks.add(packed):
        split = measurement.split
        return {need: values.masked_fill(split, torch.nan) for need, values in found.items()}
    ranks.missing = packed[sums.numel() :].nonzero().flatten().tolist()
    over_all = dict(zip(_ADDED, packed[: sums.numel()].view_as(sums), strict=True))
    if own is None:
        over_all = dict.fromkeys(over_all, nowhere)
    return {need: over_all.get(need, values) for need, values in found.items()}


def added_frozen(ranks: Ranks, boundary: Boundary, measure: Callable[[], Tensor], size: int) -> Tensor | None:
    """Return the squared norms over all ranks of parameters that are not trained; None if the ranks do not meet.

    Args:
        ranks: all ranks.
        boundary: catches what fails on this rank, whose norms are nan then.
        measure: returns this rank's, float64 of shape (size,); 0 for what another rank counts.
        size: how many parameters there are.
    """
    own = boundary.run("norms of frozen weights", measure)
    squares = torch.full((size,), torch.nan, dtype=torch.float64) if own is None else own.clone()
    return squares if ranks.add(squares) else None
