"""Additive sums of one step, gathered on the devices and brought to the CPU in one transfer each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpodyn.probe import Need


class Sums:
    """Squared norms and counts by need and row, as parts that add up.

    Args:
        rows: length of the tensor axis.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._parts: dict[Need, list[tuple[Sequence[int], Tensor]]] = defaultdict(list)

    def add(self, need: Need, rows: Sequence[int], sums: Tensor) -> None:
        """Add parts: `sums[i]` belongs to `rows[i]`. A row may come in several parts.

        Args:
            need: what was measured.
            rows: n places on the tensor axis.
            sums: float64, shape (n,), on any device.
        """
        self._parts[need].append((rows, sums))

    def measured(self, need: Need) -> set[int]:
        """Return the rows that have at least one part."""
        return {row for rows, _ in self._parts[need] for row in rows}

    def collect(self) -> dict[Need, Tensor]:
        """Return float64 CPU tensors of shape (rows,); nan where nothing was measured."""
        by_device: dict[torch.device, list[Tensor]] = defaultdict(list)
        for parts in self._parts.values():
            for _, sums in parts:
                by_device[sums.device].append(sums)
        values = {device: iter(_split_on_cpu(tensors)) for device, tensors in by_device.items()}
        collected = {}
        for need, parts in self._parts.items():
            total = torch.zeros(self.rows, dtype=torch.float64)
            for rows, sums in parts:
                total.index_add_(0, torch.tensor(rows, dtype=torch.int64), next(values[sums.device]))
            missing = torch.ones(self.rows, dtype=torch.bool)
            missing[list(self.measured(need))] = False
            collected[need] = total.masked_fill_(missing, torch.nan)
        return collected


def _split_on_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensors on the CPU, moved as one."""
    sizes = [tensor.numel() for tensor in tensors]
    return list(torch.split_with_sizes(torch.cat(tensors).cpu(), sizes))


@dataclass(frozen=True)
class Row:
    """One row's sums: the `Sample` that probes get."""

    measured: dict[Need, Tensor]
    index: int

    def squared_norm(self, need: Need) -> Tensor:
        """Return ‖·‖_F² of what `need` names as a 0-d float64 tensor; nan where it could not be measured."""
        return self._sum(need)

    def count(self, need: Need) -> Tensor:
        """Return the number of elements that `need` names as a 0-d float64 tensor; nan where it was not counted."""
        return self._sum(need)

    def _sum(self, need: Need) -> Tensor:
        if need not in self.measured:
            return torch.tensor(torch.nan, dtype=torch.float64)
        return self.measured[need][self.index]
