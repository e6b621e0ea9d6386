"""Leading singular spaces: against full decompositions, on known matrices, and the bounds of perturbation."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.spectra.spectral_change import relative_shift
from grpodyn.spectra.subspaces import compare, leading, principal_angles, principal_mask

shapes = st.tuples(st.integers(1, 24), st.integers(1, 24))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_spectrum(rows: int, cols: int, values: list[float], seed: int = 0) -> torch.Tensor:
    """A matrix of random directions with these singular values."""
    k = len(values)
    left, right = torch.linalg.qr(random(rows, k, seed=seed)).Q, torch.linalg.qr(random(cols, k, seed=seed + 1)).Q
    return left @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ right.T


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (50, 50), (1, 7), (7, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_leading_against_a_full_decomposition(shape, dtype):
    matrix = random(*shape).to(dtype)
    u, s, vh = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    found = leading(matrix, 5)
    k = min(5, *shape)
    np.testing.assert_allclose(found.values.numpy(), s, rtol=1e-9)
    assert (found.left.shape, found.right.shape) == ((shape[0], k), (shape[1], k))
    np.testing.assert_allclose((found.left @ found.left.T).numpy(), u[:, :k] @ u[:, :k].T, atol=1e-9)
    np.testing.assert_allclose((found.right @ found.right.T).numpy(), vh[:k].T @ vh[:k], atol=1e-9)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30)])
def test_leading_where_a_gram_matrix_would_lose_the_small_values(shape):
    values = [1.0, 0.5, 1e-3, 1e-9]
    found = leading(with_spectrum(*shape, values), 2)
    np.testing.assert_allclose(found.values.numpy()[:4], values, rtol=1e-5)
    assert found.is_determined


def test_a_space_is_only_determined_where_there_is_a_gap():
    assert leading(with_spectrum(9, 8, [3.0, 2.0, 1.0]), 2).is_determined
    assert leading(with_spectrum(9, 8, [3.0, 2.0, 1.0]), 3).is_determined
    assert not leading(with_spectrum(9, 8, [3.0, 2.0, 1.0]), 4).is_determined, "the rank is 3"
    assert not leading(torch.eye(6), 2).is_determined, "any two directions are as good"
    assert not leading(torch.zeros(6, 5), 2).is_determined


def test_angles_golden():
    # The plane of x and y against one turned by 0.3 about x: angles 0 and 0.3.
    turned = torch.tensor([[1.0, 0.0], [0.0, np.cos(0.3)], [0.0, np.sin(0.3)]], dtype=torch.float64)
    np.testing.assert_allclose(principal_angles(torch.eye(3, 2).double(), turned), [0.0, 0.3], atol=1e-15)


@pytest.mark.parametrize("angle", [1e-12, 1e-6, 0.5, np.pi / 2 - 1e-9, np.pi / 2])
def test_neither_small_nor_right_angles_lose_digits(angle):
    a = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    b = torch.tensor([[np.cos(angle)], [np.sin(angle)]], dtype=torch.float64)
    assert principal_angles(a, b)[0] == pytest.approx(angle, rel=1e-9)


@pytest.mark.parametrize(("n", "k"), [(20, 5), (9, 4), (6, 6), (4, 1)])
def test_angles_against_scipy(n, k):
    a, b = (torch.linalg.qr(random(n, k, seed=seed)).Q for seed in (0, 1))
    expected = scipy.linalg.subspace_angles(a.numpy(), b.numpy())[::-1]
    np.testing.assert_allclose(principal_angles(a, b), expected, atol=1e-7)


@given(shape=shapes, k=st.integers(1, 6), seed=st.integers(0, 2**31), exponent=st.floats(-8, 0))
@settings(max_examples=40, deadline=None)
def test_bounds_of_perturbation(shape, k, seed, exponent):
    """Weyl: |δσ_i| ≤ ‖ΔW‖₂. Mirsky: Σδσ² ≤ ‖ΔW‖_F². Wedin: max sin θ ≤ ‖ΔW‖₂ / (σ_k(W_t) − σ_{k+1}(W_0))."""
    before = random(*shape, seed=seed)
    delta = random(*shape, seed=seed + 1) * 10.0**exponent
    change = compare(before, before + delta, k)
    spectral = float(torch.linalg.matrix_norm(delta, 2))
    shift = change.after - change.before
    slack = 1 + 1e-9
    assert np.abs(shift).max() <= spectral * slack + 1e-12
    assert np.sum(shift**2) <= float(delta.square().sum()) * slack + 1e-20
    kept = min(k, *shape)
    left_out = change.before[kept] if kept < len(change.before) else 0.0
    gap = change.after[kept - 1] - left_out
    if gap > 0.0:
        largest = max(change.angles_left.max(), change.angles_right.max())
        assert np.sin(largest) <= spectral / gap * slack + 1e-10


def test_to_first_order_the_gap_of_the_start_bounds_the_angle():
    """max sin θ ≤ ‖ΔW‖₂ / (σ_k − σ_{k+1}) of arXiv 2511.08567, for changes far smaller than the gap."""
    before = with_spectrum(30, 20, [5.0, 4.0, 1.0, 0.5])
    for seed in range(5):
        delta = 1e-4 * random(30, 20, seed=seed + 2)
        change = compare(before, before + delta, 2)
        bound = float(torch.linalg.matrix_norm(delta, 2)) / 3.0
        assert 0.0 < np.sin(max(change.angles_left.max(), change.angles_right.max())) <= bound * 1.001


@given(shape=shapes, seed=st.integers(0, 2**31), exponent=st.integers(-20, 20))
@settings(max_examples=15, deadline=None)
def test_scale_and_transposition(shape, seed, exponent):
    before, after = random(*shape, seed=seed), random(*shape, seed=seed) + 1e-2 * random(*shape, seed=seed + 1)
    plain, scaled = compare(before, after, 3), compare(before * 2.0**exponent, after * 2.0**exponent, 3)
    turned = compare(before.T, after.T, 3)
    np.testing.assert_allclose(scaled.after, plain.after * 2.0**exponent, rtol=1e-9)
    np.testing.assert_allclose(scaled.angles_left, plain.angles_left, atol=1e-7)
    np.testing.assert_allclose(turned.angles_left, plain.angles_right, atol=1e-7)
    assert (scaled.changed, turned.changed) == (plain.changed, plain.changed)


def test_the_mask_against_the_dense_approximation():
    weight = random(30, 20)
    u, s, vh = np.linalg.svd(weight.numpy(), full_matrices=False)
    reduced = np.abs(u[:, :4] * s[:4] @ vh[:4])
    # Half of 600 elements: those above the median.
    mask = principal_mask(weight, leading(weight, 4)).numpy()
    assert mask.sum() == 300
    np.testing.assert_array_equal(mask, reduced > np.median(reduced))


def test_degenerate():
    start = random(8, 6)
    same = compare(start, start, 3)
    assert relative_shift(same.before, same.after) == 0.0
    assert same.angles_left.max() < 1e-12
    assert (same.changed, same.changed_principal) == (0, 0)
    for bad in (np.nan, np.inf):
        broken = compare(start, start * bad, 3)
        assert np.isnan(broken.before).all()
        assert np.isnan(broken.angles_left).all()
    nothing = compare(torch.zeros(4, 3), torch.zeros(4, 3), 2)
    assert np.isnan(nothing.angles_right).all()
    assert (nothing.before == 0).all()
    single = compare(torch.ones(1, 1), 2 * torch.ones(1, 1), 2)
    assert single.after.tolist() == pytest.approx([2.0])
