"""`delta_changed_fraction`: the share of elements noticeably off their start."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import COUNTS, Need

NAME = "delta_changed_fraction"


def needs(now: torch.Tensor, start: torch.Tensor) -> dict[Need, torch.Tensor]:
    w, w0 = now.double(), start.double()
    mask = (w - w0).abs() > 1e-3 * torch.maximum(w.abs(), w0.abs())
    return {Need.CHANGED_SINCE_START: mask, Need.ELEMENTS: now, Need.DELTA: w - w0}


def test_golden(measure):
    # |d|/max: 0.0005/1.0005 = 5.0e-4 no; 0.0011/1.0011 = 1.099e-3 yes; 1/1 yes; 0/0 no.
    now, start = torch.tensor([1.0005, 1.0011, 1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert measure(NAME, needs(now, start)) == pytest.approx(0.5)


def test_rounding_to_bf16_is_no_change(measure):
    # Rounding to bf16 moves a number by at most 2^-9 of itself = 1.95e-3 at worst, but a value that was bf16 already
    # stays where it is: only a real step of at least one spacing (2^-8 … 2^-7 of it) counts.
    start = (torch.arange(128) / 128 + 1).bfloat16()
    assert measure(NAME, needs((start.float() * (1 + 1e-3)).bfloat16(), start)) == 0.0
    assert measure(NAME, needs((start.float() * (1 + 2**-7)).bfloat16(), start)) == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9)])
def test_oracle(measure, random, shape, dtype):
    start = random(*shape).to(dtype)
    now = start + (2e-3 * random(*shape, seed=1)).to(dtype)
    pairs = list(zip(now.double().view(-1).tolist(), start.double().view(-1).tolist(), strict=True))
    expected = sum(abs(a - b) > 1e-3 * max(abs(a), abs(b)) for a, b in pairs) / len(pairs)
    assert measure(NAME, needs(now, start)) == pytest.approx(expected)


@given(seed=st.integers(0, 2**31), m=st.integers(1, 20), n=st.integers(1, 20), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_permutation_and_symmetry(measure, random, seed, m, n, exponent):
    start = random(m, n, seed=seed).double()
    now = start * (1 + 2e-3 * random(m, n, seed=seed + 1).double())
    plain = measure(NAME, needs(now, start))
    assert 0.0 <= plain <= 1.0
    scale = 2.0**exponent
    assert measure(NAME, needs(now * scale, start * scale)) == plain
    assert measure(NAME, needs(now.flip(1).T, start.flip(1).T)) == plain
    assert measure(NAME, needs(start, now)) == plain, "neither of the two is the measure of the other"


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure(NAME, needs(one, one)) == 0.0
    assert measure(NAME, needs(zero, one)) == 1.0
    for bad in (np.nan, np.inf):
        assert np.isnan(measure(NAME, needs(one * bad, one)))
    assert np.isnan(measure(NAME, needs(torch.zeros(0, 4), torch.zeros(0, 4)))), "a share of nothing"


def test_declares():
    probe = registry.probe(NAME)
    assert (probe.group, probe.dims, probe.unit) == ("tensors", ("row", "tensor"), "1")
    assert probe.needs & COUNTS == {Need.CHANGED_SINCE_START, Need.ELEMENTS}
