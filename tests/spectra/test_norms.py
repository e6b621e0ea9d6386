"""Squared norms: against float64, on every layout and dtype, and where float32 leaves its range."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra.norms import squared_norm, squared_norms


def oracle(x: torch.Tensor) -> float:
    """Sum of squares in numpy float64 over small pieces."""
    return float(sum(np.square(piece.double().numpy()).sum() for piece in x.reshape(-1).split(1 << 20)))


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_golden():
    # 3² + 4² + 12² = 9 + 16 + 144 = 169 = 13².
    assert squared_norm(torch.tensor([[3.0, 4.0], [0.0, 12.0]])).item() == 169.0


@pytest.mark.parametrize("n", [1, 255, 256, 257, 4095, 4096, 4097, 65_537, 1_000_003])
def test_lengths_that_do_not_divide_a_block(n: int):
    # Integers up to 7 have exact squares and, in blocks, exact float32 sums up to one rounding of the root.
    x = (torch.arange(n) % 8).float()
    assert squared_norm(x).item() == pytest.approx(oracle(x), rel=2e-7)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: random(1 << 24), id="random"),
        pytest.param(lambda: torch.rand(1 << 24, generator=torch.Generator().manual_seed(1)), id="positive"),
        pytest.param(lambda: random((1 << 24) + 77).sign() * 1e-6, id="first Adam step"),
        pytest.param(lambda: torch.full((4099, 4099), 0.1), id="constant"),
    ],
)
def test_large_tensors_within_1e_6(make: Callable[[], torch.Tensor]):
    x = make()
    assert x.numel() >= 16_000_000
    assert squared_norm(x).sqrt().item() == pytest.approx(oracle(x) ** 0.5, rel=1e-6)


def test_a_plain_float32_norm_would_not_do():
    # Why the blocks exist: one running float32 sum swallows its last addends.
    x = torch.full((1 << 24,), 0.1)
    assert torch.linalg.vector_norm(x).item() != pytest.approx(oracle(x) ** 0.5, rel=1e-6)


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(random(300, 500).T, id="transposed"),
        pytest.param(random(300, 500)[:, ::3], id="strided"),
        pytest.param(random(7, 30, 400).permute(2, 0, 1), id="permuted"),
        pytest.param(random(3, 700_000)[:, 1:], id="long rows"),
        pytest.param(random(300, 1).expand(300, 50), id="expanded"),
        pytest.param(torch.tensor(3.0), id="scalar"),
        pytest.param(random(1000, 301, dtype=torch.bfloat16), id="bf16"),
        pytest.param(random(1000, 301, dtype=torch.float16), id="fp16"),
        pytest.param(random(1000, 301, dtype=torch.bfloat16).T, id="bf16 transposed"),
        pytest.param(random(1000, 301, dtype=torch.float64), id="fp64"),
        pytest.param(random(500, 20) * 1e-30, id="squares underflow float32"),
        pytest.param(random(500, 20) * 1e30, id="squares overflow float32"),
        pytest.param(torch.nn.Parameter(random(70, 80)), id="requires grad"),
    ],
)
def test_layouts_and_dtypes(x: torch.Tensor):
    result = squared_norm(x)
    assert (result.shape, result.dtype, result.requires_grad) == ((), torch.float64, False)
    assert result.item() == pytest.approx(oracle(x.detach()), rel=1e-6)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_empty_is_zero(shape: tuple[int, ...]):
    assert squared_norm(torch.zeros(shape)).item() == 0.0


@pytest.mark.parametrize("shape", [(3,), (100, 100)])
def test_zero_is_zero(shape: tuple[int, ...]):
    assert squared_norm(torch.zeros(shape)).item() == 0.0


@pytest.mark.parametrize("n", [5, 10_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_nan_and_inf_come_through(n: int, dtype: torch.dtype):
    for bad in (np.nan, np.inf, -np.inf):
        x = random(n, dtype=dtype)
        x[n // 2] = bad
        expected = np.nan if np.isnan(bad) else np.inf
        np.testing.assert_equal(squared_norm(x).item(), expected)
        np.testing.assert_equal(squared_norms([x, torch.ones(4)]).tolist(), [expected, 4.0])


def test_input_is_left_alone():
    x = random(100, 100)
    before = x.clone()
    squared_norm(x)
    squared_norms([x, x.T])
    assert torch.equal(x, before)


def test_half_precision_is_widened_in_bounded_memory():
    x = torch.ones(1 << 22, dtype=torch.bfloat16)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        squared_norm(x)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest <= 2 << 20  # two million bytes; a float32 copy of x would be sixteen


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 9000),
    exponent=st.integers(-12, 12),
)
@settings(max_examples=40, deadline=None)
def test_scale_and_order(seed: int, n: int, exponent: int):
    x = random(n, seed=seed)
    plain = squared_norm(x).item()
    assert squared_norm(x * 2.0**exponent).item() == pytest.approx(plain * 4.0**exponent, rel=1e-6)
    shuffled = x[torch.randperm(n, generator=torch.Generator().manual_seed(seed))]
    assert squared_norm(shuffled).item() == pytest.approx(plain, rel=1e-6)
    assert (squared_norm(x[: n // 2]) + squared_norm(x[n // 2 :])).item() == pytest.approx(plain, rel=1e-6)


def test_many_equals_one_by_one():
    tensors = [
        random(5),
        random(5, seed=1),
        random(5, dtype=torch.float64),
        random(300, 200),
        random(0),
        random(64, 64).T,
        random(64, 64, dtype=torch.bfloat16),
        random(5, dtype=torch.bfloat16),
        random(90, 100) * 1e-30,
        torch.zeros(64, 64),
    ]
    one_by_one = [squared_norm(x).item() for x in tensors]
    np.testing.assert_allclose(squared_norms(tensors).numpy(), one_by_one, rtol=1e-6)


def test_many_of_none():
    assert squared_norms([]).shape == (0,)
