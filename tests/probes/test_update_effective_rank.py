"""`update_effective_rank`: in how many directions a tensor moves in one step."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need
from grpodyn.spectra.lowrank import difference
from grpodyn.spectra.singular import singular_values

spectra = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30).map(lambda s: np.sort(np.array(s))[::-1])


def compute(values) -> float:
    return registry.probe("update_effective_rank").compute(np.asarray(values, dtype=float))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def oracle(x: torch.Tensor) -> float:
    """The definition, in float64 on torch's own singular values."""
    s = torch.linalg.svdvals(x.double())
    p = s / s.sum()
    return float(torch.exp(torch.special.entr(p).sum()))


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


@pytest.mark.parametrize("shape", [(60, 90), (1, 9), (40, 40)])
def test_oracle_on_small_steps(shape):
    after = random(*shape)
    before = after - 1e-5 * random(*shape, seed=1)
    assert compute(singular_values(after - before)) == pytest.approx(oracle(after - before), rel=1e-5)


def test_an_adapters_step_from_its_factors():
    """Stacked factors [dB, B₀]·[A₁; dA] have the spectrum of the dense step, and at most twice the adapter's rank."""
    b0, a0 = random(30, 3), random(3, 20, seed=1)
    b1, a1 = b0 + 1e-4 * random(30, 3, seed=2), a0 + 1e-4 * random(3, 20, seed=3)
    rank = compute(singular_values(difference(b1, a1, b0, a0, 2.0)))
    assert rank == pytest.approx(oracle(2.0 * (b1 @ a1 - b0 @ a0)), rel=1e-5)
    assert rank <= 6 + 1e-6


@given(s=spectra, exponent=st.integers(-60, 60))
@settings(max_examples=50, deadline=None)
def test_bounds_and_scale(s, exponent):
    assert compute(s) * (1 + 1e-9) >= 1.0
    assert compute(s) <= len(s) * (1 + 1e-9)
    assert compute(s * 2.0**exponent) == pytest.approx(compute(s), rel=1e-9)
    assert compute(np.append(s, 0.0)) == pytest.approx(compute(s), rel=1e-9)


def test_degenerate():
    assert compute([0.0, 0.0]) == 0.0
    assert compute([]) == 0.0
    assert np.isnan(compute([np.nan, np.nan]))
    assert np.isnan(compute([np.inf, 1.0]))


def test_declares():
    probe = registry.probe("update_effective_rank")
    assert (probe.group, probe.dims, probe.needs) == ("spectra", ("row", "tensor"), {Need.STEP})
