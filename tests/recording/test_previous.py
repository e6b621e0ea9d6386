from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.recording.pieces import Piece
from grpodyn.recording.previous import PreviousWeights


def test_everything_is_copied_while_it_fits():
    tensors = [torch.randn(8, 4), torch.randn(6), torch.randn(())]
    previous = PreviousWeights(tensors, limit=8 * 4 * 4 + 24 + 4)
    kept = [t.clone() for t in tensors]
    previous.take()
    for tensor in tensors:
        tensor.zero_()
    assert all(torch.equal(copy, old) for copy, old in zip(previous.copies, kept, strict=True))
    assert [previous.method(i) for i in range(3)] == ["copy"] * 3


def test_large_matrices_are_sampled_and_small_ones_and_vectors_stay_exact():
    tensors = [torch.randn(1000, 10), torch.randn(20, 10), torch.randn(500)]
    # Vectors take 2,000 bytes, the small matrix 800: 1,200 bytes are left for 30 rows of the large one.
    previous = PreviousWeights(tensors, limit=4000)
    previous.take()
    assert [previous.is_sampled(i) for i in range(3)] == [True, False, False]
    assert previous.method(0) == "30 sampled of 1000 rows"
    assert previous.scale(0) == pytest.approx(1000 / 30)
    assert torch.equal(previous.copies[0], previous.matching(Piece(0), tensors[0]))


def test_pieces_of_a_sampled_weight_answer_pieces_of_its_copy():
    weight = torch.randn(1000, 5)
    previous = PreviousWeights([weight], limit=300 * 5 * 4)
    previous.take()
    parts = [Piece(0, start, start + 77) for start in range(0, 300, 77)]
    for part in parts:
        assert torch.equal(part.of(previous.copies[0]), previous.matching(part, weight))
    assert torch.equal(torch.cat([previous.matching(part, weight) for part in parts]), previous.copies[0])


def test_a_sum_over_sampled_rows_estimates_the_whole():
    """Rows are a simple random sample, so that the scaled sum is unbiased; here within four standard errors."""
    torch.manual_seed(1)
    weight = torch.randn(4000, 8)
    previous = PreviousWeights([weight], limit=500 * 8 * 4)
    squares = weight.square().sum(1)
    estimate = previous.scale(0) * previous.matching(Piece(0), weight).square().sum()
    error = 4 * float(squares.std()) * 4000 / 500**0.5
    assert abs(float(estimate - squares.sum())) < error


def test_the_sample_does_not_depend_on_the_global_generator():
    state = torch.random.get_rng_state()
    first = PreviousWeights([torch.randn(100, 4)], limit=160)
    torch.manual_seed(99)
    second = PreviousWeights([torch.zeros(100, 4)], limit=160)
    assert torch.equal(first.matching(Piece(0), torch.arange(100)), second.matching(Piece(0), torch.arange(100)))
    torch.random.set_rng_state(state)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 4000))
def test_the_limit_holds_for_matrices_of_at_least_a_row(rows, limit):
    tensors = [torch.zeros(n, 5) for n in rows]
    previous = PreviousWeights(tensors, limit)
    used = sum(copy.numel() * 4 for copy in previous.copies)
    assert used <= max(limit, len(rows) * 5 * 4), "one row each is kept whatever the limit"
