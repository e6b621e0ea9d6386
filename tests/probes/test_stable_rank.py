"""`stable_rank`: the squared Frobenius norm over the squared spectral norm."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.singular import singular_values

spectra = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30).map(lambda s: np.sort(np.array(s))[::-1])


def compute(values) -> float:
    return registry.probe("stable_rank").compute(np.asarray(values, dtype=float))


def oracle(x: torch.Tensor) -> float:
    """The definition, in float64 on torch's own singular values."""
    s = torch.linalg.svdvals(x.double())
    return float(s.square().sum() / s.max().square())


def test_golden():
    # (9 + 1)/9 and (16 + 4 + 1)/16.
    assert compute([3, 1]) == pytest.approx(10 / 9)
    assert compute([4, 2, 1]) == 1.3125
    assert compute([1, 1, 1, 1]) == 4.0


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.randn(60, 90, generator=torch.Generator().manual_seed(0)), id="random"),
        pytest.param(torch.randn(60, 90, generator=torch.Generator().manual_seed(1)).bfloat16(), id="bf16"),
        pytest.param(torch.randn(1, 9, generator=torch.Generator().manual_seed(2)), id="row"),
        pytest.param(torch.outer(torch.arange(1.0, 70.0), torch.arange(2.0, 50.0)), id="rank 1"),
        pytest.param(torch.diag(torch.arange(1, 41) ** -1.5), id="power law"),
    ],
)
def test_oracle(x):
    assert compute(singular_values(x)) == pytest.approx(oracle(x), rel=1e-5)


@given(s=spectra, exponent=st.integers(-60, 60))
@settings(max_examples=50, deadline=None)
def test_bounds_and_scale(s, exponent):
    assert compute(s) * (1 + 1e-9) >= 1.0
    assert compute(s) <= len(s) * (1 + 1e-9)
    assert compute(s * 2.0**exponent) == pytest.approx(compute(s), rel=1e-9)
    assert compute(np.append(s, 0.0)) == pytest.approx(compute(s), rel=1e-9)


@pytest.mark.parametrize("r", [1, 3])
def test_at_most_the_rank(r):
    generator = torch.Generator().manual_seed(r)
    x = torch.randn(40, r, generator=generator).double() @ torch.randn(r, 30, generator=generator).double()
    assert 1.0 - 1e-9 <= compute(singular_values(x)) <= r + 1e-6


def test_degenerate():
    assert compute([0.0, 0.0]) == 0.0
    assert compute([]) == 0.0
    assert np.isnan(compute([np.nan, np.nan]))
    assert np.isnan(compute([np.inf, 1.0]))


def test_declares():
    probe = registry.probe("stable_rank")
    assert (probe.group, probe.dims, probe.unit) == ("spectra", ("row", "tensor"), "1")
