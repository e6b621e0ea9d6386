"""`update_stable_rank`: in how many directions a tensor moves in one step, compared with the strongest one."""

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
    return registry.probe("update_stable_rank").compute(np.asarray(values, dtype=float))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def oracle(x: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(x) ** 2 / torch.linalg.matrix_norm(x, ord=2) ** 2)


def test_golden():
    # (16 + 4 + 1)/16, and 1 of a step of rank 1.
    assert compute([4, 2, 1]) == pytest.approx(1.3125)
    assert compute([2.0, 0.0, 0.0]) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(60, 90), (1, 9), (40, 40)])
def test_oracle_on_small_steps(shape):
    after = random(*shape)
    before = after - 1e-5 * random(*shape, seed=1)
    assert compute(singular_values(after - before)) == pytest.approx(oracle(after - before), rel=1e-5)


def test_an_adapters_step_from_its_factors():
    """Stacked factors [dB, B₀]·[A₁; dA] have the spectrum of the dense step."""
    b0, a0 = random(30, 3), random(3, 20, seed=1)
    b1, a1 = b0 + 1e-4 * random(30, 3, seed=2), a0 + 1e-4 * random(3, 20, seed=3)
    rank = compute(singular_values(difference(b1, a1, b0, a0, 2.0)))
    assert rank == pytest.approx(oracle(2.0 * (b1 @ a1 - b0 @ a0)), rel=1e-5)


@given(s=spectra, exponent=st.integers(-60, 60))
@settings(max_examples=50, deadline=None)
def test_bounds_and_scale(s, exponent):
    effective = registry.probe("update_effective_rank").compute(s)
    assert compute(s) * (1 + 1e-9) >= 1.0
    assert compute(s) <= len(s) * (1 + 1e-9)
    # exp of Shannon's entropy of p is at least 1/max p, and Σσ²/σ₁² ≤ Σσ/σ₁.
    assert compute(s) <= effective * (1 + 1e-9)
    assert compute(s * 2.0**exponent) == pytest.approx(compute(s), rel=1e-9)


def test_degenerate():
    assert compute([0.0, 0.0]) == 0.0
    assert compute([]) == 0.0
    assert np.isnan(compute([np.nan, np.nan]))
    assert np.isnan(compute([np.inf, 1.0]))


def test_declares():
    probe = registry.probe("update_stable_rank")
    assert (probe.group, probe.dims, probe.needs) == ("spectra", ("row", "tensor"), {Need.STEP})
