"""What every rank of a spectrum has in common: its definition, its bounds, and what it is of degenerate input."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.lowrank import difference
from grpodyn.spectra.singular import singular_values


def effective_rank(s: torch.Tensor) -> float:
    p = s / s.sum()
    return float(torch.exp(torch.special.entr(p).sum()))


def stable_rank(s: torch.Tensor) -> float:
    return float(s.square().sum() / s.max().square())


def energy_rank_90(s: torch.Tensor) -> float:
    share = torch.cumsum(s.square(), 0) / s.square().sum()
    return float(1 + (share < 0.9).sum())


ORACLES = {
    "effective_rank": effective_rank,
    "stable_rank": stable_rank,
    "energy_rank_90": energy_rank_90,
    "update_effective_rank": effective_rank,
    "update_stable_rank": stable_rank,
}
"""Each definition, on float64 singular values."""
MATRICES = {
    "random": torch.randn(60, 90, generator=torch.Generator().manual_seed(0)),
    "bf16": torch.randn(60, 90, generator=torch.Generator().manual_seed(1)).bfloat16(),
    "row": torch.randn(1, 9, generator=torch.Generator().manual_seed(2)),
    "rank 1": torch.outer(torch.arange(1.0, 70.0), torch.arange(2.0, 50.0)),
    "power law": torch.diag(torch.arange(1, 41) ** -1.5),
}
spectra = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30).map(lambda s: np.sort(np.array(s))[::-1])
every_rank = pytest.mark.parametrize("name", ORACLES)


def compute(name: str, values) -> float:
    return registry.probe(name).compute(np.asarray(values, dtype=float))


def oracle(name: str, x: torch.Tensor) -> float:
    return ORACLES[name](torch.linalg.svdvals(x.double()))


@every_rank
@pytest.mark.parametrize("x", MATRICES.values(), ids=MATRICES)
def test_equals_its_definition(name, x):
    assert compute(name, singular_values(x)) == pytest.approx(oracle(name, x), rel=1e-5)


@every_rank
def test_of_an_adapters_step_from_its_factors(name):
    """Stacked factors [dB, B₀]·[A₁; dA] have the spectrum of the dense step, and at most twice the adapter's rank."""
    generator = torch.Generator().manual_seed(3)
    b0, a0, db, da = (torch.randn(*shape, generator=generator).double() for shape in ((30, 3), (3, 20)) * 2)
    b1, a1 = b0 + 1e-4 * db, a0 + 1e-4 * da
    rank = compute(name, singular_values(difference(b1, a1, b0, a0, 2.0)))
    assert rank == pytest.approx(oracle(name, 2.0 * (b1 @ a1 - b0 @ a0)), rel=1e-5)
    assert rank <= 6 + 1e-6


@every_rank
@given(s=spectra, exponent=st.integers(-60, 60))
@settings(max_examples=50, deadline=None)
def test_bounds_and_scale(name, s, exponent):
    assert compute(name, s) * (1 + 1e-9) >= 1.0
    assert compute(name, s) <= len(s) * (1 + 1e-9)
    assert compute(name, s * 2.0**exponent) == pytest.approx(compute(name, s), rel=1e-9)
    assert compute(name, np.append(s, 0.0)) == pytest.approx(compute(name, s), rel=1e-9)


@given(s=spectra)
@settings(max_examples=50, deadline=None)
def test_the_stable_rank_is_at_most_the_effective_rank(s):
    """exp of Shannon's entropy of p is at least 1/max p, and Σσ²/σ₁² ≤ Σσ/σ₁."""
    assert compute("stable_rank", s) <= compute("effective_rank", s) * (1 + 1e-9)


@every_rank
@pytest.mark.parametrize("r", [1, 3])
def test_at_most_the_rank(name, r):
    generator = torch.Generator().manual_seed(r)
    x = torch.randn(40, r, generator=generator).double() @ torch.randn(r, 30, generator=generator).double()
    assert 1.0 - 1e-9 <= compute(name, singular_values(x)) <= r + 1e-6


@every_rank
def test_degenerate(name):
    assert compute(name, [0.0, 0.0]) == 0.0
    assert compute(name, []) == 0.0
    assert np.isnan(compute(name, [np.nan, np.nan]))
    assert np.isnan(compute(name, [np.inf, 1.0]))
