"""`delta_norm`: the Frobenius norm of the net displacement."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def test_golden(measure):
    # ‖(1, 2, 2)‖ = 3.
    assert measure("delta_norm", {Need.DELTA: torch.tensor([1.0, -2.0, 2.0])}) == 3.0


def test_never_more_than_the_path(measure, random):
    # Triangle inequality: the displacement is at most the sum of the steps.
    steps = [random(20, 10, seed=seed) for seed in range(5)]
    path = sum(measure("update_norm", {Need.STEP: step}) for step in steps)
    assert 0.0 < measure("delta_norm", {Need.DELTA: sum(steps)}) < path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9), (300, 301)])
def test_oracle(measure, random, shape, dtype):
    x = random(*shape).to(dtype)
    expected = np.sqrt(np.square(x.double().numpy()).sum())
    assert measure("delta_norm", {Need.DELTA: x}) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation(measure, random, seed, m, n, exponent):
    x = random(m, n, seed=seed).double()
    plain = measure("delta_norm", {Need.DELTA: x})
    rotation = torch.linalg.qr(random(m, m, seed=seed + 1).double()).Q
    assert measure("delta_norm", {Need.DELTA: x * 2.0**exponent}) == pytest.approx(plain * 2.0**exponent, rel=1e-6)
    assert measure("delta_norm", {Need.DELTA: x.flip(0).T}) == pytest.approx(plain, rel=1e-6)
    assert measure("delta_norm", {Need.DELTA: rotation @ x}) == pytest.approx(plain, rel=1e-6)


def test_two_shards_equal_the_whole(measure, random):
    x = random(20, 30)
    parts = [{Need.DELTA: x[:7]}, {Need.DELTA: x[7:]}]
    assert measure("delta_norm", *parts) == pytest.approx(measure("delta_norm", {Need.DELTA: x}), rel=1e-6)


def test_degenerate(measure, random):
    assert measure("delta_norm", {Need.DELTA: torch.zeros(3, 4)}) == 0.0
    assert measure("delta_norm", {Need.DELTA: torch.zeros(0, 4)}) == 0.0
    for bad in (np.nan, np.inf):
        x = random(3, 4)
        x[1, 2] = bad
        assert np.isnan(measure("delta_norm", {Need.DELTA: x}))


def test_declares():
    probe = registry.probe("delta_norm")
    assert (probe.group, probe.dims, probe.needs) == ("tensors", ("row", "tensor"), {Need.DELTA})
