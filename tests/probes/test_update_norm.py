"""`update_norm`: the Frobenius norm of the stored step."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def test_golden(measure):
    # A step of 0.5 on each of 16 elements: √(16·0.25) = 2.
    assert measure("update_norm", {Need.STEP: torch.full((4, 4), -0.5)}) == 2.0


def test_a_step_that_bf16_swallows_is_zero(measure):
    # The spacing of bf16 numbers near 1 is 2⁻⁸ below and 2⁻⁷ above: 1 + 1e-4 is stored as 1.
    before = torch.ones(8, 8, dtype=torch.bfloat16)
    after = (before.float() + 1e-4).bfloat16()
    assert measure("update_norm", {Need.STEP: after.double() - before.double()}) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9), (300, 301)])
def test_oracle(measure, random, shape, dtype):
    x = random(*shape).to(dtype)
    expected = np.sqrt(np.square(x.double().numpy()).sum())
    assert measure("update_norm", {Need.STEP: x}) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation(measure, random, seed, m, n, exponent):
    x = random(m, n, seed=seed).double()
    plain = measure("update_norm", {Need.STEP: x})
    rotation = torch.linalg.qr(random(m, m, seed=seed + 1).double()).Q
    assert measure("update_norm", {Need.STEP: x * 2.0**exponent}) == pytest.approx(plain * 2.0**exponent, rel=1e-6)
    assert measure("update_norm", {Need.STEP: x.flip(0).T}) == pytest.approx(plain, rel=1e-6)
    assert measure("update_norm", {Need.STEP: rotation @ x}) == pytest.approx(plain, rel=1e-6)


def test_two_shards_equal_the_whole(measure, random):
    x = random(20, 30)
    parts = [{Need.STEP: x[:7]}, {Need.STEP: x[7:]}]
    assert measure("update_norm", *parts) == pytest.approx(measure("update_norm", {Need.STEP: x}), rel=1e-6)


def test_degenerate(measure, random):
    assert measure("update_norm", {Need.STEP: torch.zeros(3, 4)}) == 0.0
    assert measure("update_norm", {Need.STEP: torch.zeros(0, 4)}) == 0.0
    for bad in (np.nan, np.inf):
        x = random(3, 4)
        x[1, 2] = bad
        assert np.isnan(measure("update_norm", {Need.STEP: x}))


def test_declares():
    probe = registry.probe("update_norm")
    assert (probe.group, probe.dims, probe.needs) == ("tensors", ("row", "tensor"), {Need.STEP})
