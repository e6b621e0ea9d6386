"""`energy_rank_90`: the fewest singular values that hold 90 % of the squared norm.

What it shares with other ranks is tested in test_rank_probes.
"""

import numpy as np
import torch

from grpodyn import registry
from grpodyn.spectra.singular import singular_values


def compute(values) -> float:
    return registry.probe("energy_rank_90").compute(np.asarray(values, dtype=float))


def test_golden():
    # Energies 9 and 1 of 10: the first holds exactly nine tenths.
    assert compute([3, 1]) == 1.0
    # Energies 16, 4, 1 of 21: 76 %, 95 %.
    assert compute([4, 2, 1]) == 2.0
    assert compute([1] * 10) == 9.0


def test_noise_does_not_raise_it():
    # White noise on a rank-4 movement leaves the energy rank alone, while the effective rank counts its directions.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 4, generator=generator) @ torch.randn(4, 60, generator=generator)
    noisy = x + 0.1 * torch.randn(80, 60, generator=generator)
    effective_rank = registry.probe("effective_rank").compute
    assert compute(singular_values(noisy)) == compute(singular_values(x)) <= 4
    assert effective_rank(singular_values(noisy)) > 1.5 * effective_rank(singular_values(x))


def test_declares():
    probe = registry.probe("energy_rank_90")
    assert (probe.group, probe.dims, probe.unit) == ("spectra", ("row", "tensor"), "1")
