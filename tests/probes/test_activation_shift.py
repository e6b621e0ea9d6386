"""`activation_shift`: how far a block's output on fixed prompts has moved."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need

NAME = "activation_shift"


def needs(now: torch.Tensor, start: torch.Tensor) -> dict[Need, torch.Tensor]:
    return {Need.ACTIVATION_SHIFT: now - start, Need.START_ACTIVATION: start}


def test_golden(measure):
    # Two tokens: h_0 = (3, 0) and (0, 4), h = (3, 0.3) and (0.4, 4). ‖h − h_0‖ = 0.5, ‖h_0‖ = 5.
    start, now = torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[3.0, 0.3], [0.4, 4.0]])
    assert measure(NAME, needs(now, start)) == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("shape", [(40, 70), (1, 9), (300, 301)])
def test_oracle(measure, random, shape):
    start, now = random(*shape), random(*shape, seed=1)
    d, h = (now - start).double().numpy().ravel(), start.double().numpy().ravel()
    assert measure(NAME, needs(now, start)) == pytest.approx(np.sqrt(sum(d**2)) / np.sqrt(sum(h**2)), rel=1e-6)


@given(seed=st.integers(0, 2**31), m=st.integers(1, 30), n=st.integers(1, 30), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_rotation_and_tokens_in_parts(measure, random, seed, m, n, exponent):
    start, now = random(m, n, seed=seed).double(), random(m, n, seed=seed + 1).double()
    plain = measure(NAME, needs(now, start))
    scale = 2.0**exponent
    assert measure(NAME, needs(now * scale, start * scale)) == pytest.approx(plain, rel=1e-6)
    rotation = torch.linalg.qr(random(n, n, seed=seed + 2).double()).Q
    assert measure(NAME, needs(now @ rotation, start @ rotation)) == pytest.approx(plain, rel=1e-6)
    cut = m // 2
    parts = [needs(now[:cut], start[:cut]), needs(now[cut:], start[cut:])]
    assert measure(NAME, *parts) == pytest.approx(plain, rel=1e-6)


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure(NAME, needs(one, one)) == 0.0
    assert measure(NAME, needs(zero, one)) == 1.0
    for now, start in ((zero, zero), (one, zero), (one * np.nan, one), (one, one * np.inf)):
        assert np.isnan(measure(NAME, needs(now, start)))


def test_declares():
    probe = registry.probe(NAME)
    assert (probe.group, probe.dims, probe.cost, probe.when) == ("layers", ("row", "layer"), "forward", "ends")
