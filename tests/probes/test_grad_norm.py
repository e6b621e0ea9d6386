"""`grad_norm`: the Frobenius norm of the gradient the optimizer is given."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def test_golden(measure):
    # √(3² + 4² + 12²) = √169 = 13.
    assert measure("grad_norm", {Need.GRADIENT: torch.tensor([[3.0, 4.0], [0.0, 12.0]])}) == 13.0


def test_tensors_add_up_to_the_trainers_clipped_norm(measure, random):
    # clip_grad_norm_ scales all gradients to a joint norm of max_norm: the squares of the rows add to its square.
    tensors = [torch.nn.Parameter(torch.zeros(30, 20)), torch.nn.Parameter(torch.zeros(50))]
    for i, tensor in enumerate(tensors):
        tensor.grad = random(*tensor.shape, seed=i)
    torch.nn.utils.clip_grad_norm_(tensors, max_norm=0.2)
    norms = [measure("grad_norm", {Need.GRADIENT: tensor.grad}) for tensor in tensors]
    assert np.hypot(*norms) == pytest.approx(0.2, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9), (300, 301)])
def test_oracle(measure, random, shape, dtype):
    x = random(*shape).to(dtype)
    expected = np.sqrt(np.square(x.double().numpy()).sum())
    assert measure("grad_norm", {Need.GRADIENT: x}) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation(measure, random, seed, m, n, exponent):
    x = random(m, n, seed=seed).double()
    plain = measure("grad_norm", {Need.GRADIENT: x})
    rotation = torch.linalg.qr(random(m, m, seed=seed + 1).double()).Q
    assert measure("grad_norm", {Need.GRADIENT: x * 2.0**exponent}) == pytest.approx(plain * 2.0**exponent, rel=1e-6)
    assert measure("grad_norm", {Need.GRADIENT: x.flip(0).T}) == pytest.approx(plain, rel=1e-6)
    assert measure("grad_norm", {Need.GRADIENT: rotation @ x}) == pytest.approx(plain, rel=1e-6)


def test_two_shards_equal_the_whole(measure, random):
    x = random(20, 30)
    parts = [{Need.GRADIENT: x[:7]}, {Need.GRADIENT: x[7:]}]
    assert measure("grad_norm", *parts) == pytest.approx(measure("grad_norm", {Need.GRADIENT: x}), rel=1e-6)


def test_degenerate(measure, random):
    assert measure("grad_norm", {Need.GRADIENT: torch.zeros(3, 4)}) == 0.0
    assert measure("grad_norm", {Need.GRADIENT: torch.zeros(0, 4)}) == 0.0
    for bad in (np.nan, np.inf):
        x = random(3, 4)
        x[1, 2] = bad
        assert np.isnan(measure("grad_norm", {Need.GRADIENT: x}))


def test_declares():
    probe = registry.probe("grad_norm")
    assert (probe.group, probe.dims, probe.needs) == ("tensors", ("row", "tensor"), {Need.GRADIENT})
