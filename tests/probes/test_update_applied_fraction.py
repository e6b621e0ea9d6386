"""`update_applied_fraction`: which part of a step survives rounding to the storage dtype."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need

NAME = "update_applied_fraction"


def needs(stored: torch.Tensor, intended: torch.Tensor) -> dict[Need, torch.Tensor]:
    return {Need.STEP: stored, Need.INTENDED_STEP: intended}


def test_golden(measure):
    # ‖(0, 0.4)‖ / ‖(0.3, 0.4)‖ = 0.4/0.5: the first element's step was swallowed.
    assert measure(NAME, needs(torch.tensor([0.0, 0.4]), torch.tensor([0.3, 0.4]))) == pytest.approx(0.8, rel=1e-6)


@pytest.mark.parametrize(("step", "expected"), [(2.0**-9, 0.0), (2.0**-7, 1.0), (3 * 2.0**-9, 4 / 3)])
def test_bf16_golden(measure, step, expected):
    # Next to 1 bf16 is spaced by 2^-7: a quarter of that is lost, a whole one is kept, three quarters are rounded up.
    before = torch.full((5,), 1.0, dtype=torch.bfloat16)
    stored = (before.float() + step).bfloat16().float() - before.float()
    assert measure(NAME, needs(stored, torch.full((5,), step))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9)])
def test_oracle(measure, random, shape):
    weight, intended = random(*shape).bfloat16(), 1e-3 * random(*shape, seed=1)
    stored = (weight.float() + intended).bfloat16().float() - weight.float()
    expected = np.linalg.norm(stored.double().numpy().ravel()) / np.linalg.norm(intended.double().numpy().ravel())
    assert measure(NAME, needs(stored, intended)) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**31), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_rotation_and_shards(measure, random, seed, m, n, exponent):
    stored, intended = random(m, n, seed=seed).double(), random(m, n, seed=seed + 1).double()
    plain = measure(NAME, needs(stored, intended))
    scale = 2.0**exponent
    rotation = torch.linalg.qr(random(m, m, seed=seed + 2).double()).Q
    assert measure(NAME, needs(stored * scale, intended * scale)) == pytest.approx(plain, rel=1e-6)
    assert measure(NAME, needs(stored * scale, intended)) == pytest.approx(plain * scale, rel=1e-6)
    assert measure(NAME, needs(stored.flip(0), intended.T)) == pytest.approx(plain, rel=1e-6)
    assert measure(NAME, needs(rotation @ stored, rotation @ intended)) == pytest.approx(plain, rel=1e-6)
    cut = m // 2
    shards = [needs(stored[:cut], intended[:cut]), needs(stored[cut:], intended[cut:])]
    assert measure(NAME, *shards) == pytest.approx(plain, rel=1e-6)


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure(NAME, needs(zero, one)) == 0.0
    for stored, intended in ((zero, zero), (one, zero), (one * np.nan, one), (one, one * np.inf)):
        assert np.isnan(measure(NAME, needs(stored, intended)))


def test_declares():
    probe = registry.probe(NAME)
    assert (probe.group, probe.dims, probe.unit) == ("tensors", ("row", "tensor"), "1")
    assert probe.needs == {Need.STEP, Need.INTENDED_STEP}
