"""`spectral_shift`: how far a weight's singular values move."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.subspaces import compare


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shift(before: torch.Tensor, after: torch.Tensor) -> float:
    return registry.probe("spectral_shift").compute(compare(before, after))


def test_golden():
    # σ = (4, 3) becomes (4, 3.5): 0.5/5. The signs and directions of the axes do not count.
    assert shift(torch.diag(torch.tensor([3.0, 4.0])), torch.diag(torch.tensor([-4.0, 3.5]))) == pytest.approx(0.1)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (1, 9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_oracle(shape, dtype):
    before = random(*shape).to(dtype)
    after = (before.double() + 1e-2 * random(*shape, seed=1)).to(dtype)
    s0, s1 = (np.linalg.svd(w.double().numpy(), compute_uv=False) for w in (before, after))
    assert shift(before, after) == pytest.approx(np.linalg.norm(s1 - s0) / np.linalg.norm(s0), rel=1e-5)


@given(m=st.integers(1, 20), n=st.integers(1, 20), seed=st.integers(0, 2**31), exponent=st.integers(-20, 20))
@settings(max_examples=15, deadline=None)
def test_bound_scale_and_rotation(m, n, seed, exponent):
    before, delta = random(m, n, seed=seed), 1e-2 * random(m, n, seed=seed + 1)
    plain = shift(before, before + delta)
    # Mirsky: the spectrum moves no more than the weight does.
    assert plain <= float(delta.norm() / before.norm()) * (1 + 1e-9) + 1e-12
    scale = 2.0**exponent
    assert shift(before * scale, (before + delta) * scale) == pytest.approx(plain, rel=1e-6, abs=1e-10)
    q = torch.linalg.qr(random(m, m, seed=seed + 2)).Q
    assert shift(before, q @ (before + delta)) == pytest.approx(plain, rel=1e-6, abs=1e-10)
    assert shift(before, q @ before) == pytest.approx(0.0, abs=1e-10), "a rotation leaves the spectrum where it is"


def test_degenerate():
    one = torch.ones(3, 4)
    assert shift(one, one) == 0.0
    assert shift(one, 0 * one) == pytest.approx(1.0)
    assert np.isnan(shift(0 * one, one)), "a share of nothing"
    for bad in (np.nan, np.inf):
        assert np.isnan(shift(one, one * bad))
        assert np.isnan(shift(one * bad, one))


def test_declares():
    probe = registry.probe("spectral_shift")
    assert (probe.group, probe.dims, probe.unit, probe.when) == ("spectra", ("row", "tensor"), "1", "ends")
