"""`update_norm_intended`: the Frobenius norm of the optimizer's step before rounding."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def test_golden(measure):
    # Adam's first step is ±lr in every element: lr·√n = 1e-6·√(10·40) = 2e-5.
    step = 1e-6 * torch.ones(10, 40).copysign(torch.linspace(-1, 1, 40))
    assert measure("update_norm_intended", {Need.INTENDED_STEP: step}) == pytest.approx(2e-5, rel=1e-6)


def test_first_step_of_a_real_adam(measure, random):
    weight = torch.nn.Parameter(random(10, 40).double())
    before = weight.detach().clone()
    weight.grad = random(10, 40, seed=1).double()
    torch.optim.AdamW([weight], lr=1e-6, eps=1e-30, weight_decay=0.0).step()
    step = weight.detach() - before
    assert measure("update_norm_intended", {Need.INTENDED_STEP: step}) == pytest.approx(2e-5, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9), (300, 301)])
def test_oracle(measure, random, shape, dtype):
    x = random(*shape).to(dtype)
    expected = np.sqrt(np.square(x.double().numpy()).sum())
    assert measure("update_norm_intended", {Need.INTENDED_STEP: x}) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation(measure, random, seed, m, n, exponent):
    x = random(m, n, seed=seed).double()
    plain = measure("update_norm_intended", {Need.INTENDED_STEP: x})
    rotation = torch.linalg.qr(random(m, m, seed=seed + 1).double()).Q
    assert measure("update_norm_intended", {Need.INTENDED_STEP: x * 2.0**exponent}) == pytest.approx(
        plain * 2.0**exponent, rel=1e-6
    )
    assert measure("update_norm_intended", {Need.INTENDED_STEP: x.flip(0).T}) == pytest.approx(plain, rel=1e-6)
    assert measure("update_norm_intended", {Need.INTENDED_STEP: rotation @ x}) == pytest.approx(plain, rel=1e-6)


def test_two_shards_equal_the_whole(measure, random):
    x = random(20, 30)
    parts = [{Need.INTENDED_STEP: x[:7]}, {Need.INTENDED_STEP: x[7:]}]
    assert measure("update_norm_intended", *parts) == pytest.approx(
        measure("update_norm_intended", {Need.INTENDED_STEP: x}), rel=1e-6
    )


def test_degenerate(measure, random):
    assert measure("update_norm_intended", {Need.INTENDED_STEP: torch.zeros(3, 4)}) == 0.0
    assert measure("update_norm_intended", {Need.INTENDED_STEP: torch.zeros(0, 4)}) == 0.0
    for bad in (np.nan, np.inf):
        x = random(3, 4)
        x[1, 2] = bad
        assert np.isnan(measure("update_norm_intended", {Need.INTENDED_STEP: x}))


def test_declares():
    probe = registry.probe("update_norm_intended")
    assert (probe.group, probe.dims, probe.needs) == ("tensors", ("row", "tensor"), {Need.INTENDED_STEP})
