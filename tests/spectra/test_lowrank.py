"""Low-rank matrices: against their dense product in float64."""

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra.lowrank import LowRank, difference, joined, product, squared_norms


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(x: LowRank) -> torch.Tensor:
    return x.left.double() @ x.right.double()


def test_golden():
    # An outer product of vectors of norms 5 and 2 has the one singular value 10 and squared norm 100.
    x = LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 2.0, 0.0]]))
    assert x.squared_norm().item() == pytest.approx(100.0, rel=1e-15)
    np.testing.assert_allclose(x.singular_values().numpy(), [10.0, 0.0], rtol=1e-15)
    assert x.shape == (2, 3)


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 12),
    k=st.integers(1, 16),
    n=st.integers(1, 12),
    scale=st.sampled_from([1e-9, 1e-3, 1.0, 32.0]),
)
@settings(max_examples=60, deadline=None)
def test_equals_the_dense_product(seed: int, m: int, k: int, n: int, scale: float):
    x = product(random(m, k, seed=seed), random(k, n, seed=seed + 1), scale)
    expected = torch.linalg.svdvals(dense(x))
    assert x.squared_norm().item() == pytest.approx(expected.square().sum().item(), rel=1e-12)
    # Values below 1e-10 of the largest are rounding on both sides.
    np.testing.assert_allclose(x.singular_values(), expected, rtol=1e-5, atol=1e-10 * expected[0].item())
    assert int((x.singular_values() > 1e-10 * expected[0]).sum()) <= min(m, k, n)


@pytest.mark.parametrize("step", [1e-2, 1e-6, 1e-9])
def test_a_small_step_between_large_products(step: float):
    b0, a0 = random(60, 8, seed=1), random(8, 90, seed=2)
    b1, a1 = b0 + step * random(60, 8, seed=3), a0 + step * random(8, 90, seed=4)
    x = difference(b1, a1, b0, a0, scale=2.0)
    # The oracle expands the products with exact differences, so that nothing large is subtracted.
    expected = 2.0 * ((b1 - b0) @ a1 + b0 @ (a1 - a0))
    assert x.squared_norm().item() == pytest.approx(expected.square().sum().item(), rel=1e-10)
    np.testing.assert_allclose(x.singular_values()[:16], torch.linalg.svdvals(expected)[:16], rtol=1e-8)
    assert float(x.singular_values()[16:].abs().max()) == 0.0


def test_factors_that_move_while_their_product_does_not():
    # B → 2B, A → A/2 leaves BA alone: the summands cancel, and the Gram form alone would leave 1e-8 of them.
    b, a = random(40, 4, seed=1), random(4, 50, seed=2)
    still = difference(2 * b, a / 2, b, a)
    assert still.squared_norm().item() < 1e-24 * product(b, a).squared_norm().item()
    moved = difference(2 * b + 1e-9, a / 2, b, a)
    expected = 1e-9 * torch.ones(40, 4, dtype=torch.float64) @ (a / 2)
    assert moved.squared_norm().item() == pytest.approx(expected.square().sum().item(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_factors_are_widened(dtype: torch.dtype):
    b, a = random(30, 4).to(dtype), random(4, 20, seed=1).to(dtype)
    x = LowRank(b, a)
    assert x.squared_norm().item() == pytest.approx(dense(x).square().sum().item(), rel=1e-12)
    np.testing.assert_allclose(x.singular_values()[:4], torch.linalg.svdvals(dense(x))[:4], rtol=1e-12)


def test_a_stack_of_experts():
    x = LowRank(random(3, 10, 2), random(3, 2, 7, seed=1))
    assert x.shape == (3, 10, 7)
    assert x.squared_norm().item() == pytest.approx(dense(x).square().sum().item(), rel=1e-12)
    assert x.singular_values().shape == (3, 7)
    np.testing.assert_allclose(x.singular_values()[:, :2], torch.linalg.svdvals(dense(x))[:, :2], rtol=1e-12)


def test_products_of_two_adapters_join_into_their_sum():
    first, second = (product(random(9, 2, seed=i), random(2, 7, seed=i + 10), scale=0.5) for i in (1, 2))
    expected = dense(first) + dense(second)
    both = joined([first, second])
    assert both.shape == (9, 7)
    np.testing.assert_allclose(dense(both), expected, rtol=1e-14)
    assert both.squared_norm().item() == pytest.approx(expected.square().sum().item(), rel=1e-12)


def test_norms_of_many_products_are_those_of_each():
    still = difference(2 * random(40, 4), random(4, 50, seed=1) / 2, random(40, 4), random(4, 50, seed=1))
    others = [product(random(40, 8, seed=i), random(8, 50, seed=i + 10)) for i in (1, 2)]
    stack = LowRank(random(3, 10, 2), random(3, 2, 7, seed=1))
    narrow = LowRank(random(6, 2).float(), random(2, 5).float())
    products = [others[0], stack, still, narrow, others[1], product(torch.zeros(6, 2), random(2, 5))]
    each = [x.squared_norm().item() for x in products]
    np.testing.assert_allclose(squared_norms(products), each, rtol=1e-12)
    # Sixteen and more digits cancel here; the Gram form alone would leave 1e-8 of the summands.
    assert each[2] < 1e-24 * others[0].squared_norm().item()
    assert squared_norms([]).shape == (0,)


def test_shapes_are_checked_while_tests_run():
    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameter .a.\."):
        product(torch.zeros(4, 2), torch.zeros(3, 5))


def test_zero_factors():
    # LoRA starts with B = 0: no movement, whatever A is.
    x = product(torch.zeros(6, 2), random(2, 5))
    assert x.squared_norm().item() == 0.0
    assert x.singular_values().tolist() == [0.0] * 5


def test_nan_comes_through_the_norm():
    b = random(6, 2)
    b[0, 0] = np.nan
    assert np.isnan(LowRank(b, random(2, 5)).squared_norm().item())


@pytest.mark.parametrize(("left", "right"), [((4, 2), (3, 5)), ((2, 4, 2), (3, 2, 5))])
def test_factors_that_do_not_multiply(left: tuple[int, ...], right: tuple[int, ...], monkeypatch: pytest.MonkeyPatch):
    # Users run without the shape checker of these tests, which would speak first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="do not multiply; pass left"):
        LowRank(torch.zeros(left), torch.zeros(right))
