"""`update_effective_rank`: in how many directions a tensor moves in one step.

What it shares with other ranks is tested in test_rank_probes.
"""

import numpy as np
import pytest
import torch

from grpodyn import registry
from grpodyn.probe import Need
from grpodyn.spectra.singular import singular_values


def compute(values) -> float:
    return registry.probe("update_effective_rank").compute(np.asarray(values, dtype=float))


def test_golden():
    # A step of SGD with one sample is rank 1; p = (3/4, 1/4) gives 4/3^(3/4).
    assert compute([2.0, 0.0, 0.0]) == pytest.approx(1.0)
    assert compute([3, 1]) == pytest.approx(4 / 3**0.75)


def test_the_sign_of_a_step_uses_every_direction():
    # Adam's first step is ±lr everywhere: for a Hadamard matrix all n singular values are lr·√n.
    h = torch.tensor([[1.0]])
    for _ in range(4):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    assert compute(singular_values(1e-6 * h)) == pytest.approx(16.0, rel=1e-5)


def test_declares():
    probe = registry.probe("update_effective_rank")
    assert (probe.group, probe.dims, probe.needs) == ("spectra", ("row", "tensor"), {Need.STEP})
