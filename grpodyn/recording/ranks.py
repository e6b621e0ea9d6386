"""Adds what the ranks of a sharded training measure of their parts, at fixed points of the step.

Everything here runs on the training thread. Every rank enters every sum, whatever has failed on it, so none waits for
another in vain; if one is gone all the same, the others wait once, for a limited time, and go on without sums.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.naming.shards import Share, shares
from grpodyn.probe import Need
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.measurement import Measurement

logger = logging.getLogger("grpodyn")

PATIENCE = timedelta(minutes=2)
"""How long a rank waits for the others."""
_ADDED = [need for need in Need if need is not Need.ELEMENTS]
"""What ranks add up; how many elements a whole parameter has is known to each of them."""
_STARTS = itertools.count()
"""Ranks start their recorders equally often, and meet by the number of the start."""


class Ranks:
    """The ranks among which a model is split, with a process group of the recorder's own on the CPU.

    Args:
        split: what this rank holds of each split parameter, by its id.
        group: connects all ranks on the CPU.
        rank: this rank.
    """

    def __init__(self, split: Mapping[int, Share], group: Any, rank: int) -> None:
        self.shares = split
        self.rank = rank
        self.size = group.size()
        self.failed: str | None = None
        """Why nothing is added any more, if nothing is."""
        self.missing: list[int] = []
        """Ranks whose measurement failed at the last sum."""
        self._group = group

    def confirm(self, names: Sequence[str] | None) -> None:
        """Make sure that all ranks have begun, and measure the same tensors in the same order.

        Args:
            names: entries of the tensor axis; None if recording could not begin on this rank.
        """
        digest = 0
        if names is not None:
            digest = 1 + int.from_bytes(hashlib.sha256("\n".join(names).encode()).digest()[:6], "big")
        seen = torch.zeros(self.size, dtype=torch.float64)
        # 48 bits are exact in float64.
        seen[self.rank] = digest
        if not self._add(seen):
            return
        idle = [rank for rank, value in enumerate(seen.tolist()) if value == 0]
        if idle:
            self.failed = f"recording could not begin on ranks {idle}"
        elif len(set(seen.tolist())) > 1:
            self.failed = "the ranks hold different parameters"

    def measured(
        self,
        boundary: Boundary,
        measurement: Measurement,
        measure: Callable[[Iterable[Need]], dict[Need, Tensor]],
        needs: Iterable[Need],
    ) -> dict[Need, Tensor]:
        """Measure this rank's parts and return the sums over all ranks. Every rank calls it, at the same points.

        Args:
            boundary: catches what fails on this rank, whose sums are nan then.
            measurement: knows the parts.
            measure: returns the sums of this rank, float64 of shape (rows,) by need.
            needs: what it measures.

        Returns:
            What `measure` returns, over all ranks: nan where any rank could not measure its part.
        """
        own = boundary.run("measurement", measure, needs)
        nowhere = torch.full((measurement.rows,), torch.nan, dtype=torch.float64)
        found = dict.fromkeys(Need, nowhere) if own is None else own
        sums = torch.stack([found.get(need, nowhere) for need in _ADDED])
        # What another rank counts, and an empty part, add nothing.
        sums[:, ~measurement.counted(is_first=self.rank == 0)] = 0.0
        flags = torch.zeros(self.size, dtype=torch.float64)
        flags[self.rank] = own is None
        packed = torch.cat([sums.flatten(), flags])
        if not self._add(packed):
            split = measurement.split
            return {need: values.masked_fill(split, torch.nan) for need, values in found.items()}
        self.missing = packed[sums.numel() :].nonzero().flatten().tolist()
        added = dict(zip(_ADDED, packed[: sums.numel()].view_as(sums), strict=True))
        if own is None:
            added = dict.fromkeys(added, nowhere)
        return {need: added.get(need, values) for need, values in found.items()}

    def _add(self, values: Tensor) -> bool:
        """Replace values by their sums over all ranks; return whether that was possible."""
        if self.failed is not None:
            return False
        try:
            self._group.allreduce([values]).wait()
        except RuntimeError as error:
            self.failed = f"another rank did not answer within {PATIENCE.total_seconds():.0f} s: {error}"
            logger.warning("sharded parameters are not measured any more: %s", self.failed)
            return False
        return True


def join(model: nn.Module) -> Ranks | None:
    """Return the ranks among which a model is split; None where it is not, or where the others do not come.

    The process group is none of the training's: it changes neither their order nor their names.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    split = shares(model)
    if not split or not distributed.is_gloo_available():
        return None
    # Not every build of torch has these.
    from torch.distributed.distributed_c10d import (  # noqa: PLC0415  # see above
        PrefixStore,
        ProcessGroupGloo,
        _get_default_store,
    )

    rank, size = distributed.get_rank(), distributed.get_world_size()
    store = PrefixStore(f"grpodyn/{next(_STARTS)}", _get_default_store())
    try:
        group = ProcessGroupGloo(store, rank, size, PATIENCE)
    except RuntimeError as error:
        logger.warning("sharded parameters are not measured: start the recorder on every rank (%s)", error)
        return None
    return Ranks(split, group, rank)
