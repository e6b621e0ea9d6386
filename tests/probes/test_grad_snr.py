"""`grad_snr`: what successive gradients have in common, against what differs between them."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.recording.gradient_moments import SAMPLED, GradientMoments


def snr(*gradients: torch.Tensor) -> float:
    """Return the probe's value of one tensor over these steps, through the recorder's accumulator."""
    parameter = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    moments = GradientMoments([parameter])
    for gradient in gradients:
        parameter.grad = gradient.clone()
        moments.add()
    signal, noise = (values.numpy() for values in moments.read())
    return float(registry.probe("grad_snr").compute(signal, noise)[0])


def oracle(gradients: torch.Tensor) -> float:
    """Over all elements: noise by the sample variance, signal by the squares of means less their own noise."""
    g = gradients.double().reshape(len(gradients), -1).numpy()
    noise = g.var(axis=0, ddof=1).sum()
    return float(((g.mean(axis=0) ** 2).sum() - noise / len(g)) / noise)


def test_golden():
    # g = 1 and 3: the mean 2 squared is 4, the mean square 5. Signal 2·4 − 5 = 3, noise 2·(5 − 4) = 2.
    assert snr(torch.tensor([1.0]), torch.tensor([3.0])) == pytest.approx(1.5)
    # g = 1 and −1: no signal, estimated as 0 − 1 = −1 of noise 2.
    assert snr(torch.tensor([1.0]), torch.tensor([-1.0])) == pytest.approx(-0.5)


@pytest.mark.parametrize("shape", [(20, 30), (9,), (1024,)])
@pytest.mark.parametrize("steps", [2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_oracle_where_every_element_is_taken(random, shape, steps, dtype):
    gradients = (1.0 + random(steps, *shape)).to(dtype)
    assert snr(*gradients) == pytest.approx(oracle(gradients), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_is_within_its_error(random, seed):
    # Of 60,000 elements 1,024 are taken. The mean of their squares is good to √(2/1024) = 4 %, the ratio to some 6 %.
    gradients = 1.0 + random(10, 200, 300, seed=seed)
    assert SAMPLED < 200 * 300
    assert snr(*gradients) == pytest.approx(oracle(gradients), rel=0.15)


def test_the_estimate_is_unbiased(random):
    # Signal 0.25 and noise 1 an element. An element's ‖m‖² − noise/4 has variance 4·0.25·(1/4) + 2·(1/4)² = 0.375: over
    # 1,000 elements and 60 windows the standard error is √(0.375/60,000) = 0.0025.
    values = [snr(*(0.5 + random(4, 1000, seed=seed))) for seed in range(60)]
    assert np.mean(values) == pytest.approx(0.25, abs=0.01)


@given(seed=st.integers(0, 2**31), steps=st.integers(2, 6), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_order_and_range(random, seed, steps, exponent):
    gradients = 0.3 + random(steps, 5, 6, seed=seed)
    plain = snr(*gradients)
    assert snr(*(gradients * 2.0**exponent)) == pytest.approx(plain, rel=1e-6)
    assert snr(*gradients.flip(0)) == pytest.approx(plain, rel=1e-6)
    assert snr(*(-gradients)) == pytest.approx(plain, rel=1e-6)
    # m ≥ 0 in (T·m − s)/(T·(s − m)): never below −1/T.
    assert plain >= -1.0 / steps - 1e-9


def test_degenerate():
    one = torch.ones(3, 4)
    assert np.isnan(snr(one)), "one step has nothing to differ from"
    assert np.isnan(snr(one, one)), "no noise"
    assert np.isnan(snr(0 * one, 0 * one))
    for bad in (np.nan, np.inf):
        assert np.isnan(snr(one, one * bad))


def test_a_window_ends_when_it_is_read_and_one_of_one_step_goes_on():
    parameter = torch.nn.Parameter(torch.zeros(1))
    moments = GradientMoments([parameter])
    for value in (1.0, 3.0):
        parameter.grad = torch.tensor([value])
        moments.add()
    assert [float(v) for v in moments.read()] == pytest.approx([3.0, 2.0])
    parameter.grad = torch.tensor([-1.0])
    moments.add()
    assert np.isnan(float(moments.read()[0]))
    parameter.grad = torch.tensor([1.0])
    moments.add()
    assert [float(v) for v in moments.read()] == pytest.approx([-1.0, 2.0])


def test_a_step_without_a_gradient_is_no_gradient_of_zero():
    parameter = torch.nn.Parameter(torch.zeros(1))
    moments = GradientMoments([parameter])
    for value in (torch.tensor([1.0]), None, torch.tensor([3.0])):
        parameter.grad = value
        moments.add()
    assert [float(v) for v in moments.read()] == pytest.approx([3.0, 2.0])


def test_declares():
    probe = registry.probe("grad_snr")
    assert (probe.group, probe.dims, probe.unit) == ("tensors", ("row", "tensor"), "1")
