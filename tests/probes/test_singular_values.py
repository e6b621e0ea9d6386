"""`singular_values`: the spectrum itself, descending."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.spectra.singular import singular_values


def compute(values) -> np.ndarray:
    return registry.probe("singular_values").compute(np.asarray(values, dtype=float))


def test_golden():
    # A signed permutation of diag(5, 2, 1) keeps its singular values.
    x = torch.tensor([[0.0, -2.0, 0.0], [0.0, 0.0, 1.0], [5.0, 0.0, 0.0]])
    np.testing.assert_allclose(compute(singular_values(x)), [5.0, 2.0, 1.0], rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_oracle(random, dtype):
    x = random(40, 60).to(dtype)
    expected = torch.linalg.svdvals(x.double()).numpy()
    np.testing.assert_allclose(compute(singular_values(x)), expected, rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 12), n=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_descending_and_their_squares_add_to_the_squared_norm(seed, m, n):
    x = torch.randn(m, n, generator=torch.Generator().manual_seed(seed)).double()
    values = compute(singular_values(x))
    assert values.shape == (min(m, n),)
    assert (np.diff(values) <= 0.0).all()
    assert np.square(values).sum() == pytest.approx(x.square().sum().item(), rel=1e-12)


def test_degenerate():
    assert compute(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert compute([]).shape == (0,)
    assert np.isnan(compute([np.nan, np.nan])).all()


def test_declares():
    probe = registry.probe("singular_values")
    assert (probe.group, probe.dims) == ("spectra", ("row", "tensor", "k"))
