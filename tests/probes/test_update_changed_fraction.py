"""`update_changed_fraction`: the share of elements whose stored bits a step changes."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import COUNTS, Need
from grpodyn.spectra.changes import changed_bits

NAME = "update_changed_fraction"


def needs(after: torch.Tensor, before: torch.Tensor) -> dict[Need, torch.Tensor]:
    step = after.double() - before.double()
    return {Need.CHANGED_BY_STEP: after != before, Need.ELEMENTS: after, Need.STEP: step}


def test_golden(measure):
    # Two of five elements.
    after = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    before = torch.tensor([1.0, 2.5, 3.0, 4.0, 5.1])
    assert measure(NAME, needs(after, before)) == pytest.approx(0.4)


def test_bf16_swallows_small_steps(measure):
    # 256 values evenly over [1, 2): bf16 spacing there is 2^-7. A step of 2^-9 (a quarter of it) rounds back unless the
    # stored value is rounded from above it: from exact bf16 values no element changes; in float32 all of them do.
    start = torch.arange(128) / 128 + 1
    for dtype, share in ((torch.bfloat16, 0.0), (torch.float32, 1.0)):
        before = start.to(dtype)
        after = (before.float() + 2.0**-9).to(dtype)
        assert measure(NAME, needs(after, before)) == share


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(40, 70), (70,), (1, 9)])
def test_oracle(measure, random, shape, dtype):
    before = random(*shape).to(dtype)
    after = before + (1e-3 * random(*shape, seed=1)).to(dtype)
    a, b = after.double().numpy().ravel(), before.double().numpy().ravel()
    assert measure(NAME, needs(after, before)) == pytest.approx(sum(x != y for x, y in zip(a, b, strict=True)) / a.size)


@given(seed=st.integers(0, 2**31), m=st.integers(1, 20), n=st.integers(1, 20), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_permutation_scale_and_shards(measure, random, seed, m, n, share):
    before = random(m, n, seed=seed)
    after = torch.where(random(m, n, seed=seed + 1).sigmoid() < share, before + 1, before)
    plain = measure(NAME, needs(after, before))
    assert 0.0 <= plain <= 1.0
    assert measure(NAME, needs(after.flip(0).T, before.flip(0).T)) == plain
    assert measure(NAME, needs(after * 2, before * 2)) == plain
    cut = m // 2
    shards = [needs(after[:cut], before[:cut]), needs(after[cut:], before[cut:])]
    assert measure(NAME, *shards) == pytest.approx(plain)


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure(NAME, needs(zero, zero)) == 0.0
    assert measure(NAME, needs(one, zero)) == 1.0
    assert measure(NAME, needs(torch.ones(1, 7), torch.zeros(1, 7))) == 1.0
    for bad in (np.nan, np.inf):
        assert np.isnan(measure(NAME, needs(one * bad, one)))
    assert np.isnan(measure(NAME, needs(torch.zeros(0, 4), torch.zeros(0, 4)))), "a share of nothing"


def test_counts_what_the_recorder_counts():
    before, after = torch.zeros(3), torch.tensor([0.0, 1.0, -0.0])
    # −0 for 0 is a change of stored bits, which != does not see.
    assert changed_bits([after], [before]).item() == 2


def test_declares():
    probe = registry.probe(NAME)
    assert (probe.group, probe.dims, probe.unit) == ("tensors", ("row", "tensor"), "1")
    assert probe.needs & COUNTS == {Need.CHANGED_BY_STEP, Need.ELEMENTS}
