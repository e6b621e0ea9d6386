"""`update_ratio`: the stored step as a share of the weight before it."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def needs(step: torch.Tensor, weight: torch.Tensor) -> dict[Need, torch.Tensor]:
    return {Need.STEP: step, Need.PREVIOUS_WEIGHT: weight}


def test_golden(measure):
    # ‖(0.3, 0.4)‖ / ‖(6, 8)‖ = 0.5/10.
    ratio = measure("update_ratio", needs(torch.tensor([0.3, 0.4]), torch.tensor([6.0, 8.0])))
    assert ratio == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9), (300, 301)])
def test_oracle(measure, random, shape, dtype):
    step, weight = (1e-3 * random(*shape)).to(dtype), random(*shape, seed=1).to(dtype)
    expected = np.linalg.norm(step.double().numpy().ravel()) / np.linalg.norm(weight.double().numpy().ravel())
    assert measure("update_ratio", needs(step, weight)) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation(measure, random, seed, m, n, exponent):
    step, weight = random(m, n, seed=seed).double(), random(m, n, seed=seed + 1).double()
    plain = measure("update_ratio", needs(step, weight))
    scale = 2.0**exponent
    rotation = torch.linalg.qr(random(m, m, seed=seed + 2).double()).Q
    assert measure("update_ratio", needs(step * scale, weight * scale)) == pytest.approx(plain, rel=1e-6)
    assert measure("update_ratio", needs(step * scale, weight)) == pytest.approx(plain * scale, rel=1e-6)
    assert measure("update_ratio", needs(step.flip(0), weight.T)) == pytest.approx(plain, rel=1e-6)
    assert measure("update_ratio", needs(rotation @ step, rotation @ weight)) == pytest.approx(plain, rel=1e-6)


def test_shards_are_added_before_the_ratio(measure):
    # Shards (3, 4) and (0, 0) of a step over (6, 0) and (0, 8): 5/10, where a mean of ratios would say 5/12.
    zero = torch.zeros(2)
    shards = [
        needs(torch.tensor([3.0, 4.0]), torch.tensor([6.0, 0.0])),
        needs(zero, torch.tensor([0.0, 8.0])),
    ]
    assert measure("update_ratio", *shards) == pytest.approx(0.5, rel=1e-6)


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure("update_ratio", needs(zero, one)) == 0.0
    for step, weight in ((zero, zero), (one, zero), (one * np.nan, one), (one, one * np.inf), (one * np.inf, one)):
        assert np.isnan(measure("update_ratio", needs(step, weight)))


def test_declares():
    probe = registry.probe("update_ratio")
    assert (probe.group, probe.dims) == ("tensors", ("row", "tensor"))
    assert probe.needs == {Need.STEP, Need.PREVIOUS_WEIGHT}
