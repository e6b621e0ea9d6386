"""`principal_overlap`: whether the changed elements are the principal ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.subspaces import compare


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def overlap(before: torch.Tensor, after: torch.Tensor, k: int = 16) -> float:
    return registry.probe("principal_overlap").compute(compare(before, after, k))


def reduced(weight: torch.Tensor, k: int) -> torch.Tensor:
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    return (u[:, :k] * s[:k] @ vh[:k]).abs()


def test_golden():
    # Rank 1 as it stands: the two largest of four elements, 4 and 2, are principal. Changing 4 and 1 overlaps by half.
    weight = torch.outer(torch.tensor([2.0, 1.0]), torch.tensor([2.0, 1.0])).double()
    changed = weight.clone()
    changed[0, 0], changed[1, 1] = 4.5, 1.5
    # The other two elements are equal to each other, and one of them is the second largest: ties count as principal.
    assert overlap(weight, changed, k=1) == pytest.approx(0.5)
    changed[1, 1] = 1.0
    assert overlap(weight, changed, k=1) == 1.0
    changed[0, 0], changed[1, 1] = 4.0, 1.5
    assert overlap(weight, changed, k=1) == 0.0


@pytest.mark.parametrize("shape", [(40, 60), (60, 40)])
def test_oracle(shape):
    before = random(*shape)
    after = before * (1 + 2e-3 * random(*shape, seed=1))
    changed = (after - before).abs() > 1e-3 * torch.maximum(after.abs(), before.abs())
    dense = reduced(before, 16)
    principal = dense > dense.median()
    expected = float((changed & principal).sum() / changed.sum())
    assert overlap(before, after) == pytest.approx(expected, abs=2 / int(changed.sum()))


def test_changes_anywhere_overlap_by_alpha():
    before = random(200, 100)
    after = torch.where(random(200, 100, seed=1) > 0, before * 1.1, before)
    # About 10,000 changed elements, of which half are principal: ±5 standard deviations of 0.005.
    assert overlap(before, after) == pytest.approx(0.5, abs=0.025)


@given(m=st.integers(2, 20), n=st.integers(2, 20), seed=st.integers(0, 2**31), exponent=st.integers(-20, 20))
@settings(max_examples=15, deadline=None)
def test_range_scale_and_transposition(m, n, seed, exponent):
    before = random(m, n, seed=seed)
    after = before * (1 + 2e-3 * random(m, n, seed=seed + 1))
    after[0, 0] += 1.0
    plain = overlap(before, after, k=2)
    assert 0.0 <= plain <= 1.0
    assert overlap(before * 2.0**exponent, after * 2.0**exponent, k=2) == plain
    assert overlap(before, before + 10, k=2) == pytest.approx((m * n // 2) / (m * n)), "everything changed: α"


def test_degenerate():
    one = random(4, 5)
    assert np.isnan(overlap(one, one)), "nothing has changed"
    for bad in (np.nan, np.inf):
        assert np.isnan(overlap(one, one * bad))
    assert np.isfinite(overlap(torch.zeros(4, 5), one))


def test_declares():
    probe = registry.probe("principal_overlap")
    assert (probe.unit, probe.when) == ("1", "ends")
    assert probe.constants == {"k": 16, "alpha": 0.5, "tolerance": 1e-3}
