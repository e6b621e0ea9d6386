"""Singular values: against float64 `svdvals` on easy, hard and degenerate matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra import ranks, singular
from grpodyn.spectra.lowrank import LowRank
from grpodyn.spectra.singular import singular_values


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_spectrum(m: int, n: int, values: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Return a float64 (m, n) matrix with these singular values."""
    left = torch.linalg.qr(random(m, len(values), seed=seed).double()).Q
    right = torch.linalg.qr(random(n, len(values), seed=seed + 1).double()).Q
    return (left * values.double()) @ right.T


def power_law(m: int, n: int, exponent: float) -> torch.Tensor:
    return with_spectrum(m, n, torch.arange(1, min(m, n) + 1) ** -exponent).float()


def low_rank(m: int, n: int, r: int) -> torch.Tensor:
    return random(m, r, seed=1) @ random(r, n, seed=2)


def all_ranks(values: np.ndarray) -> list[float]:
    return [ranks.effective_rank(values), ranks.stable_rank(values), ranks.energy_rank(values, 0.9)]


MATRICES = {
    "random wide": random(100, 257),
    "random square": random(128, 128),
    "random tall": random(5000, 40),
    "power law 1": power_law(150, 100, 1.0),
    "power law 2": power_law(100, 150, 2.0),
    "power law 4": power_law(100, 100, 4.0),
    "rank 1": low_rank(150, 100, 1),
    "rank 8": low_rank(100, 300, 8),
    "rank 8 tall": low_rank(20_000, 64, 8),
    "row": random(1, 50),
    "column": random(50, 1),
    "one": torch.tensor([[-3.0]]),
    "orthogonal": torch.linalg.qr(random(80, 80)).Q,
    "identity": torch.eye(70),
    "bf16": random(60, 90).bfloat16(),
    "bf16 rank 4": low_rank(60, 90, 4).bfloat16(),
    "fp16": random(60, 90).half(),
    "denormal": random(30, 40) * 1e-40,
    "huge": random(30, 40) * 1e37,
    "float64 tiny": random(30, 40).double() * 1e-200,
    "repeated column": random(60, 1).expand(60, 40),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a35_equals_svdvals(name: str):
    """A35: half precision too, which torch does not decompose."""
    x = MATRICES[name]
    expected = torch.linalg.svdvals(x.double()).numpy()
    found = singular_values(x)
    assert (found.shape, found.dtype) == (expected.shape, np.float64)
    # Values under 1e-10 of the largest are rounding on both sides.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-10 * expected[0])
    np.testing.assert_allclose(all_ranks(found), all_ranks(expected), rtol=1e-5)
    assert (np.diff(found) <= 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(896, 4864), (4864, 896)])
@pytest.mark.parametrize("rank", [1, 8, None])
def test_equals_svdvals_on_the_shapes_of_a_half_billion_model(shape: tuple[int, int], rank: int | None):
    x = random(*shape) if rank is None else low_rank(*shape, rank)
    tall = x if shape[0] > shape[1] else x.T  # the same values, and `svdvals` takes a tenth of the time
    expected = torch.linalg.svdvals(tall.double()).numpy()
    found = singular_values(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-10 * expected[0])
    np.testing.assert_allclose(all_ranks(found), all_ranks(expected), rtol=1e-5)


@pytest.mark.parametrize("condition", [1e3, 9e4, 1.1e5, 1e7, 1e12])
def test_ill_conditioned_on_both_sides_of_the_gram_threshold(condition: float):
    values = torch.logspace(0.0, -float(np.log10(condition)), 50, dtype=torch.float64)
    found = singular_values(with_spectrum(80, 50, values))
    np.testing.assert_allclose(found, values.numpy(), rtol=1e-5, atol=1e-14)
    np.testing.assert_allclose(all_ranks(found), all_ranks(values.numpy()), rtol=1e-9)


def test_golden():
    # A rotation times diag(3, 1): erank of (3, 1) is 1.754765, stable rank 10/9.
    c, s = 0.6, 0.8
    x = torch.tensor([[c, -s], [s, c]], dtype=torch.float64) @ torch.diag(torch.tensor([3.0, 1.0]).double())
    np.testing.assert_allclose(singular_values(x), [3.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(all_ranks(singular_values(x)), [1.754765, 1.111111, 1.0], atol=5e-7)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 4), (0, 5), (5, 0), (0,)])
def test_a36_zero_and_empty(shape: tuple[int, ...]):
    """A36: defined values for matrices without direction."""
    found = singular_values(torch.zeros(shape))
    assert found.tolist() == [0.0] * min(*shape, *([1] if len(shape) == 1 else []))
    assert all_ranks(found) == [0.0, 0.0, 0.0]


def test_a_vector_counts_as_a_column():
    np.testing.assert_allclose(singular_values(torch.tensor([3.0, 4.0])), [5.0], rtol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(5, 6), (60, 6)])
def test_a36_nan_and_inf_give_nan(bad: float, shape: tuple[int, int]):
    """A36: NaN makes torch raise, and Inf makes it return NaN without a word."""
    x = random(*shape)
    x[3, 2] = bad
    found = singular_values(x)
    assert found.shape == (min(shape),)
    assert np.isnan(found).all()
    assert np.isnan(all_ranks(found)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_a_factor_gives_nan(bad: float):
    left = random(6, 2)
    left[0, 0] = bad
    assert np.isnan(singular_values(LowRank(left, random(2, 5)))).all()


def test_a37_factors_equal_their_product():
    """A37: an adapter's spectrum comes from its thin factors, never from a dense matrix."""
    x = LowRank(random(60, 4).double(), random(4, 30, seed=1).double())
    np.testing.assert_allclose(singular_values(x), singular_values(x.left @ x.right), rtol=1e-9, atol=1e-12)


def test_three_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"two dimensions, this tensor \(2, 3, 4\)"):
        singular_values(torch.zeros(2, 3, 4))


def test_deterministic_and_input_left_alone():
    x = random(70, 90)
    before = x.clone()
    assert np.array_equal(singular_values(x), singular_values(x))
    assert torch.equal(x, before)


def test_a36_another_driver_when_divide_and_conquer_gives_up(monkeypatch: pytest.MonkeyPatch):
    """A36: decompositions that do not converge."""

    def give_up(_: torch.Tensor) -> torch.Tensor:
        raise torch.linalg.LinAlgError("did not converge")

    x = low_rank(60, 40, 8)
    expected = torch.linalg.svdvals(x.double()).numpy()
    monkeypatch.setattr(singular.torch.linalg, "svdvals", give_up)
    np.testing.assert_allclose(singular_values(x), expected, rtol=1e-9, atol=1e-7 * expected[0])
    np.testing.assert_allclose(all_ranks(singular_values(x)), all_ranks(expected), rtol=1e-5)


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 20),
    n=st.integers(1, 20),
    exponent=st.integers(-30, 30),
)
@settings(max_examples=60, deadline=None)
def test_invariances(seed: int, m: int, n: int, exponent: int):
    x = random(m, n, seed=seed).double()
    plain = singular_values(x)
    loose = {"rtol": 1e-6, "atol": 1e-10 * plain[0]}
    np.testing.assert_allclose(singular_values(x.T), plain, **loose)
    scale = 2.0**exponent
    np.testing.assert_allclose(singular_values(x * scale) / scale, plain, **loose)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    np.testing.assert_allclose(singular_values(x[order]), plain, **loose)
    rotation = torch.linalg.qr(random(m, m, seed=seed + 1).double()).Q
    np.testing.assert_allclose(singular_values(rotation @ x), plain, **loose)
    assert np.square(plain).sum() == pytest.approx(x.square().sum().item(), rel=1e-12)
