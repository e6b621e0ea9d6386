"""`principal_angle`: how far the leading singular spaces of a weight turn."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.subspaces import compare


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def angle(before: torch.Tensor, after: torch.Tensor, k: int = 16) -> float:
    return registry.probe("principal_angle").compute(compare(before, after, k))


def rotation(n: int, by: float) -> torch.Tensor:
    """Turns the first axis towards the last one."""
    q = torch.eye(n, dtype=torch.float64)
    q[0, 0] = q[-1, -1] = np.cos(by)
    q[0, -1], q[-1, 0] = -np.sin(by), np.sin(by)
    return q


def test_golden():
    # The leading two of three directions; turning axis 1 towards axis 3 by 0.2 turns the plane by 0.2.
    weight = torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    assert angle(weight, rotation(3, 0.2) @ weight, k=2) == pytest.approx(0.2, rel=1e-9)
    assert angle(weight, weight @ rotation(3, 0.2), k=2) == pytest.approx(0.2, rel=1e-9)
    assert angle(weight, weight.flip(0).flip(1), k=1) == pytest.approx(np.pi / 2)
    # Moving only what is not leading, or stretching what is, turns nothing.
    assert angle(weight, torch.diag(torch.tensor([5.0, 2.5, 0.1], dtype=torch.float64)), k=2) == pytest.approx(
        0.0, abs=1e-12
    )


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (30, 30)])
def test_oracle(shape):
    before = random(*shape)
    after = before + 1e-2 * random(*shape, seed=1)
    u0, _, v0 = np.linalg.svd(before.numpy())
    u1, _, v1 = np.linalg.svd(after.numpy())
    expected = max(
        scipy.linalg.subspace_angles(u0[:, :16], u1[:, :16]).max(),
        scipy.linalg.subspace_angles(v0[:16].T, v1[:16].T).max(),
    )
    assert angle(before, after) == pytest.approx(expected, rel=1e-6)


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 2**31), exponent=st.integers(-20, 20))
@settings(max_examples=15, deadline=None)
def test_range_scale_and_symmetry(m, n, seed, exponent):
    before, after = random(m, n, seed=seed), random(m, n, seed=seed + 1)
    plain = angle(before, after, k=2)
    assert 0.0 <= plain <= np.pi / 2 + 1e-12
    assert angle(before * 2.0**exponent, -after) == pytest.approx(angle(before, after), rel=1e-6, abs=1e-8)
    assert angle(after, before, k=2) == pytest.approx(plain, rel=1e-6, abs=1e-8)


def test_degenerate():
    weight = random(20, 20)
    assert angle(weight, weight) == pytest.approx(0.0, abs=1e-10)
    assert np.isnan(angle(torch.zeros(20, 20), weight)), "a zero weight has no leading directions"
    assert np.isnan(angle(torch.outer(weight[0], weight[1]), weight)), "nor has one of rank 1 sixteen"
    assert np.isnan(angle(torch.eye(20), weight)), "nor one whose directions are all alike"
    for bad in (np.nan, np.inf):
        assert np.isnan(angle(weight, weight * bad))


def test_declares():
    probe = registry.probe("principal_angle")
    assert (probe.unit, probe.when, probe.constants) == ("rad", "ends", {"k": 16})
