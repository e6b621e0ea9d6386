"""Large directions over a low floor: the parts have the singular values of the whole, or the way is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra import deflation, ranks
from grpodyn.spectra.deflation import Split, deflated_values, split
from grpodyn.spectra.singular import singular_values


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_spectrum(m: int, n: int, values: torch.Tensor, seed: int = 0) -> torch.Tensor:
    left = torch.linalg.qr(random(m, len(values), seed=seed).double()).Q
    right = torch.linalg.qr(random(n, len(values), seed=seed + 1).double()).Q
    return (left * values.double()) @ right.T


def low_rank(m: int, n: int, r: int, seed: int = 0) -> torch.Tensor:
    """A float32 product: of rank r but for the rounding of its elements, which fills all other directions."""
    return random(m, r, seed=seed) @ random(r, n, seed=seed + 1)


def check(matrix: torch.Tensor, found: torch.Tensor) -> None:
    expected = torch.linalg.svdvals(matrix.double()).numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-10 * expected[0])
    for rank in (ranks.effective_rank, ranks.stable_rank, lambda values: ranks.energy_rank(values, 0.9)):
        assert rank(found.numpy()) == pytest.approx(rank(expected), rel=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 8, 16, 30])
@pytest.mark.parametrize("shape", [(400, 100), (128, 128), (3000, 64)])
def test_a_rounded_product_is_taken_apart_exactly(shape: tuple[int, int], rank: int):
    matrix = low_rank(*shape, rank)
    found = deflated_values(matrix)
    assert found is not None
    check(matrix, found)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 8])
@pytest.mark.parametrize("shape", [(896, 896), (4864, 896)])
def test_a_rounded_product_of_the_size_of_a_real_delta(shape: tuple[int, int], rank: int):
    matrix = 1e-3 * low_rank(*shape, rank)
    found = deflated_values(matrix)
    assert found is not None
    check(matrix, found)


def test_golden():
    """diag(3e6, 1, …, 1): one direction over a floor of ones, each value known by hand."""
    matrix = torch.diag(torch.cat([torch.tensor([3e6]), torch.ones(99)]))
    parts = split(matrix)
    assert parts is not None
    assert parts.values.tolist() == pytest.approx([3e6], rel=1e-14)
    found = deflated_values(matrix)
    assert found is not None
    np.testing.assert_allclose(found.numpy(), [3e6, *[1.0] * 99], rtol=1e-9)


def test_an_integer_product_has_nothing_but_rounding_below():
    """No element is rounded: what is left is float64 noise, as it is for `svdvals`."""
    matrix = torch.randint(-3, 4, (300, 8)).float() @ torch.randint(-3, 4, (8, 90)).float()
    found = deflated_values(matrix)
    assert found is not None
    check(matrix, found)
    assert float(found[8]) < 1e-12 * float(found[0])


@pytest.mark.parametrize(
    "matrix",
    [
        random(300, 100),
        with_spectrum(300, 100, torch.arange(1, 101) ** -1.0).float(),
        with_spectrum(300, 100, torch.logspace(0, -9, 100)),
        low_rank(300, 100, 40),
        low_rank(300, 40, 2),
        low_rank(300, 100, 4).bfloat16(),
        torch.zeros(200, 100),
    ],
    ids=["random", "power law", "no gap", "rank beyond the sketch", "narrow", "bf16", "zero"],
)
def test_without_a_gap_it_steps_aside(matrix: torch.Tensor):
    assert deflated_values(matrix) is None


def test_a_floor_that_a_gram_matrix_loses_is_refused():
    """The floor spans nine orders of magnitude under a gap: its smallest values would be wrong."""
    floor = torch.logspace(-3, -9, 90, dtype=torch.float64)
    matrix = with_spectrum(200, 93, torch.cat([torch.ones(3, dtype=torch.float64), floor]))
    assert split(matrix) is not None
    assert deflated_values(matrix) is None
    expected = torch.linalg.svdvals(matrix).numpy()
    np.testing.assert_allclose(singular_values(matrix), expected, rtol=1e-5)


def test_directions_that_are_not_the_matrix_s_own_are_refused(monkeypatch: pytest.MonkeyPatch):
    """The bound is what vouches for the result: with directions that are off, nothing is returned."""
    matrix = low_rank(300, 100, 8)
    honest = split(matrix)
    assert honest is not None

    def tilted(given: torch.Tensor) -> Split:
        right = torch.linalg.qr(honest.right + 1e-2 * random(*honest.right.shape, seed=5)).Q
        left, core = torch.linalg.qr(given.double() @ right)
        coupling = left.T @ given.double() - core @ right.T
        return Split(left, right, torch.linalg.svdvals(core), coupling)

    monkeypatch.setattr(deflation, "split", tilted)
    assert deflated_values(matrix) is None


@given(
    seed=st.integers(0, 2**31),
    large=st.integers(1, 20),
    coupled=st.floats(1e-12, 0.3),
    floor=st.floats(1e-6, 0.5),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_bound_holds(seed: int, large: int, coupled: float, floor: float):
    """σ of [[S, C], [0, F]] are those of S and F within the bound, whatever C is."""
    n = 40
    values = 1.0 + torch.rand(large, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = values.sort(descending=True).values
    rest = floor * random(n - large, n - large, seed=seed).double() / n
    coupling = coupled * random(large, n - large, seed=seed + 1).double() / n
    whole = torch.zeros(n, n, dtype=torch.float64)
    whole[:large, :large], whole[:large, large:], whole[large:, large:] = torch.diag(values), coupling, rest
    floors = torch.linalg.svdvals(rest)
    apart = torch.cat([values, floors]).sort(descending=True).values
    parts = Split(
        torch.eye(n, large).double(),
        torch.eye(n, large).double(),
        values,
        whole[:large] - torch.diag(values) @ torch.eye(large, n).double(),
    )
    off = float((torch.linalg.svdvals(whole) - apart).abs().max())
    assert off <= parts.error(float(floors[0])) * (1 + 1e-9) + 1e-14


@given(seed=st.integers(0, 2**31), rank=st.integers(1, 12), exponent=st.integers(-12, 12))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_scale_and_transposition(seed: int, rank: int, exponent: int):
    matrix = low_rank(150, 80, rank, seed)
    plain = singular_values(matrix)
    scaled = singular_values(matrix * 2.0**exponent)
    np.testing.assert_allclose(scaled, plain * 2.0**exponent, rtol=1e-6, atol=1e-10 * scaled[0])
    np.testing.assert_array_equal(singular_values(matrix.T), plain)


def test_nan_steps_aside():
    matrix = low_rank(100, 80, 3)
    matrix[4, 5] = torch.nan
    assert split(matrix) is None or deflated_values(matrix) is None


def test_deterministic_and_input_left_alone():
    matrix = low_rank(200, 90, 5)
    before, state = matrix.clone(), torch.get_rng_state()
    first, second = deflated_values(matrix), deflated_values(matrix)
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    assert torch.equal(matrix, before)
    assert torch.equal(torch.get_rng_state(), state), "the trainer's random numbers are its own"
