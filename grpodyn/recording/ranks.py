"""How the ranks of a sharded training meet: at fixed points of the step, for what the first rank asks of the others.

Everything here runs on the training thread. At each point every rank but the first listens until it is let go, whatever
has failed on it, and the first lets the others go, whatever has failed there: so none waits for another in vain. If one
is gone all the same, the others wait once, for a limited time, and go on alone.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.naming import zero3
from grpodyn.naming.shards import Share, shares

logger = logging.getLogger("grpodyn")

PATIENCE = timedelta(minutes=2)
"""How long a rank waits for the others."""
_STARTS = itertools.count()
"""Ranks start their recorders equally often, and meet by the number of the start."""
_NUMBERS = 4
"""Numbers that go with a task."""


class Task(IntEnum):
    """What the first rank asks the others to do."""

    LEAVE = 0
    """To go on with training; the number says whether the next step is to be copied."""
    WAIT = 1
    """To listen on."""
    STEP_SUMS = 2
    """To add what the optimizer's step did to their parts."""
    DISPLACEMENT_SUMS = 3
    """To add how far their parts are from the start."""
    FROZEN_SUMS = 4
    """To add the norms of their parts of what is not trained."""
    PART = 5
    """To send a part of a matrix: which tensor, what of it, which matrix of how many."""
    FACTORS = 6
    """To send their parts of adapters' factors: of the first to the last adapted weight, what of them."""
    FORWARD = 7
    """To run the model: on how many rows of how many tokens."""
    SAVE = 8
    """To help to put the whole model together."""


Answers = Mapping[Task, Callable[..., None]]


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
        self.size: int = group.size()
        self.failed: str | None = None
        """Why the ranks do not meet any more, if they do not."""
        self.missing: list[int] = []
        """Ranks on which something failed at the last sum or gathering."""
        self.parting = 0
        """What the first rank tells the others when it lets them go."""
        self.tables: list[Tensor] = []
        """What each rank has told the others at the start; empty before."""
        self._group = group
        self._met = False

    def confirm(self, names: Sequence[str] | None, table: Tensor | None = None) -> None:
        """Make sure that all ranks have begun, and measure the same tensors in the same order.

        Args:
            names: entries of the tensor axis; None if recording could not begin on this rank.
            table: numbers that every rank is to know of this one, int64; equally many on each.
        """
        digest, size = 0, 0 if table is None else table.numel()
        if names is not None:
            digest = 1 + int.from_bytes(hashlib.sha256("\n".join((str(size), *names)).encode()).digest()[:7], "big")
        seen = self._exchanged(torch.tensor([digest]))
        if seen is None:
            return
        digests = seen.flatten().tolist()
        idle = [rank for rank, value in enumerate(digests) if value == 0]
        if idle:
            self.failed = f"recording could not begin on ranks {idle}"
        elif len(set(digests)) > 1:
            self.failed = "the ranks hold different parameters"
        elif table is not None and size:
            every = self._exchanged(table.flatten())
            self.tables = [] if every is None else [own.view(table.shape) for own in every]

    # The first rank.

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Keep the other ranks, which `attend`, for the block; let them go at its end, however it ends."""
        self._met = True
        try:
            yield
        finally:
            self.tell(Task.LEAVE, self.parting)
            self._met = False

    def tell(self, task: Task, *numbers: int) -> bool:
        """Ask the other ranks for something; return whether they are there to do it."""
        if not self._met or self.rank:
            return False
        header = torch.zeros(1 + _NUMBERS, dtype=torch.int64)
        header[: 1 + len(numbers)] = torch.tensor([task, *numbers])
        return self._try(lambda: self._group.broadcast(header, 0))

    def still_here(self) -> None:
        """Let the other ranks know that the first is only slow."""
        self.tell(Task.WAIT)

    def receive(self, rank: int, numel: int, dtype: torch.dtype) -> Tensor | None:
        """Return what another rank sends, shape (numel,); None if that failed there, or it is gone."""
        values = torch.empty(numel + 1, dtype=dtype)
        if not self._try(lambda: self._group.recv([values], rank, 0)):
            return None
        if not bool(values[-1]):
            self.missing.append(rank)
            return None
        return values[:-1]

    # The others.

    def attend(self, answers: Answers) -> int:
        """Do what the first rank asks for until it lets this one go.

        Returns:
            What it says at parting.
        """
        header = torch.zeros(1 + _NUMBERS, dtype=torch.int64)
        while self._try(lambda: self._group.broadcast(header, 0)):
            task, *numbers = header.tolist()
            if task == Task.LEAVE:
                return int(numbers[0])
            if task != Task.WAIT:
                answers[Task(task)](*numbers)
        return 0

    def send(self, values: Tensor | None, numel: int, dtype: torch.dtype) -> None:
        """Send values to the first rank; None says that there are none, because something failed.

        Args:
            values: any shape, on any device.
            numel: how many the first rank expects.
            dtype: and in what dtype.
        """
        sent = torch.zeros(numel + 1, dtype=dtype)
        if values is not None:
            sent[:-1] = values.detach().reshape(-1)
            sent[-1] = 1
        self._try(lambda: self._group.send([sent], 0, 0))

    # Every rank.

    def add(self, values: Tensor) -> bool:
        """Replace values on the CPU by their sums over all ranks; return whether that was possible."""
        return self._try(lambda: self._group.allreduce([values]))

    def share(self, values: Tensor) -> bool:
        """Replace values on the CPU by those of the first rank; return whether that was possible."""
        return self._try(lambda: self._group.broadcast(values, 0))

    def _exchanged(self, own: Tensor) -> Tensor | None:
        """Return what every rank has, shape (ranks, n), from this rank's int64 values of shape (n,)."""
        every = torch.zeros((self.size, own.numel()), dtype=torch.int64)
        every[self.rank] = own
        return every if self.add(every) else None

    def _try(self, start: Callable[[], Any]) -> bool:
        if self.failed is not None:
            return False
        try:
            start().wait()
        except RuntimeError as error:
            self.failed = f"another rank is gone, or did not answer within {PATIENCE.total_seconds():.0f} s: {error}"
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
    ranks = Ranks(split, group, rank)
    why = zero3.confirm(model)
    if why is not None:
        logger.warning("sharded parameters are not measured: %s", why)
    refused = torch.tensor([float(why is not None)], dtype=torch.float64)
    return ranks if ranks.add(refused) and not refused.item() else None
