"""Runs a probe the way a recorder does, on plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from grpodyn import registry
from grpodyn.probe import Need, TensorProbe
from grpodyn.spectra.norms import squared_norm


@dataclass(frozen=True)
class PlainSample:
    """One tensor (or shard) whose needs are at hand."""

    tensors: Mapping[Need, torch.Tensor]

    def squared_norm(self, need: Need) -> torch.Tensor:
        return squared_norm(self.tensors[need])

    def count(self, need: Need) -> torch.Tensor:
        # A test gives the mask of what is counted; of all elements, any tensor of their shape.
        mask = self.tensors[need]
        return torch.tensor(mask.numel() if need == Need.ELEMENTS else int(mask.sum()), dtype=torch.float64)


@pytest.fixture
def measure() -> Callable[..., float]:
    """Return `measure(name, {need: tensor}, …)`: one mapping per shard of a tensor, or per tensor of a layer."""

    def run(name: str, *parts: Mapping[Need, torch.Tensor]) -> float:
        probe = registry.probe(name)
        assert isinstance(probe, TensorProbe)
        sums = np.sum([torch.stack(probe.measure(PlainSample(part))).numpy() for part in parts], axis=0)
        (value,) = probe.compute(*(np.array([total]) for total in sums))
        return float(value)

    return run


@pytest.fixture
def random() -> Callable[..., torch.Tensor]:
    """Return `random(*shape, seed=0)`: standard normal, float32."""

    def make(*shape: int, seed: int = 0) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    return make
