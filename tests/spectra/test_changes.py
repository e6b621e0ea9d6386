"""Counts of changed elements: exact bits, and beyond what rounding to bf16 does."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra.changes import changed_bits, changed_noticeably

DTYPES = {torch.bfloat16: np.uint16, torch.float16: np.uint16, torch.float32: np.uint32, torch.float64: np.uint64}


def bits(x: torch.Tensor) -> np.ndarray:
    """The stored bytes as numbers, by another way than `view` of an integer dtype."""
    return np.frombuffer(bytes(x.contiguous().view(torch.uint8).numpy().tobytes()), DTYPES[x.dtype])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_a_step_below_half_a_unit_changes_no_bit():
    # bf16 has 8 significant bits: next to 1 the spacing is 2^-7, and 1 + 2^-9 is 1 again. Next to 2^-9 it is seen.
    before = torch.tensor([1.0, 2.0**-9], dtype=torch.bfloat16)
    after = (before.float() + 2.0**-9).bfloat16()
    assert changed_bits([after], [before]).tolist() == [1.0]


def test_bits_of_special_values():
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert changed_bits([nan, -zero, nan, zero], [nan, zero, zero, zero]).tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", list(DTYPES), ids=str)
@pytest.mark.parametrize("shape", [(40, 70), (7,), (), (3, 4, 5), (0, 4)])
def test_bits_against_bytes(dtype, shape):
    before = random(*shape).to(dtype)
    after = (before.float() * (1 + 3e-3 * random(*shape, seed=1))).to(dtype)
    expected = int((bits(after.reshape(-1)) != bits(before.reshape(-1))).sum()) if before.numel() else 0
    assert changed_bits([after], [before]).tolist() == [expected]


def test_bits_of_strided_tensors():
    before = random(6, 8)
    after = before.clone()
    after[2:4, 5] += 1.0
    assert changed_bits([after.T, after[:, ::2], after[1:3]], [before.T, before[:, ::2], before[1:3]]).tolist() == [
        2.0,
        0.0,
        1.0,
    ]


def test_noticeable_is_relative_to_the_larger():
    # |a − b| / max: 0.0005/1.0005, 0.1/2.1, 0.0011/1.0011 (1.099e-3 > 1e-3), 1/1, 0/0.
    a = torch.tensor([1.0, 2.0, 1.0, 0.0, 0.0])
    b = torch.tensor([1.0005, 2.1, 1.0011, 1.0, 0.0])
    assert changed_noticeably([a, b], [b, a]).tolist() == [3.0, 3.0]


@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), spread=st.floats(1e-5, 1e-1), exponent=st.integers(-30, 30)
)
@settings(max_examples=50, deadline=None)
def test_noticeable_against_the_definition(seed, n, spread, exponent):
    before = random(n, seed=seed % 2**31).double() * 2.0**exponent
    after = before * (1 + spread * random(n, seed=seed % 1000).double())
    d, m = (after - before).abs().numpy(), np.maximum(after.abs().numpy(), before.abs().numpy())
    expected = sum(1 for i in range(n) if d[i] > 1e-3 * m[i])
    assert changed_noticeably([after], [before]).tolist() == [expected]
    # No more elements change noticeably than change at all.
    assert expected <= changed_bits([after], [before]).item()


def test_of_nothing():
    assert changed_bits([], []).shape == (0,)
    assert changed_noticeably([], []).dtype == torch.float64
