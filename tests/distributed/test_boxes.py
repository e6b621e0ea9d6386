"""Where parts lie in a whole: each against the whole tensor, element by element."""

from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.naming.boxes import Box
from grpodyn.naming.shards import Share
from grpodyn.recording.gradient_moments import SAMPLED, GradientMoments
from grpodyn.recording.previous import PreviousWeights


@st.composite
def placed(draw: st.DrawFn) -> Box:
    whole = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    start = tuple(draw(st.integers(0, length)) for length in whole)
    shape = tuple(draw(st.integers(0, length - first)) for length, first in zip(whole, start, strict=True))
    return Box(whole, start, shape)


def test_a_box_by_hand() -> None:
    # Rows 1 and 2 of a 4 × 3 matrix: elements 3 to 8. Of its second half, rows 2 and 3, the box holds the first row.
    box = Box((4, 3), (1, 0), (2, 3))
    whole = torch.arange(12.0).view(4, 3)
    assert box.of(whole).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert box.rows(1, 2) == (Box((2, 3), (0, 0), (1, 3)), slice(1, 2))
    held, places = box.inside(torch.tensor([0, 3, 8, 9]))
    assert held.tolist() == [False, True, True, False]
    assert places.tolist() == [0, 5]


@given(placed())
def test_what_is_taken_out_goes_back_to_its_place(box: Box) -> None:
    whole = torch.arange(float(prod(box.whole))).view(box.whole)
    filled = torch.full(box.whole, torch.nan)
    box.put(box.of(whole).reshape(-1), filled.view(-1))
    kept = ~filled.isnan()
    assert int(kept.sum()) == box.numel
    assert torch.equal(filled[kept], whole[kept])


@given(placed(), st.integers(1, 3))
def test_blocks_of_rows_add_up_to_the_box(box: Box, count: int) -> None:
    whole = torch.arange(float(prod(box.whole) * count)).view(box.whole[0] * count, *box.whole[1:])
    # The same box in a stack of `count`, so that it reaches over several matrices.
    own = Box(tuple(whole.shape), (box.start[0] * count, *box.start[1:]), (box.shape[0] * count, *box.shape[1:]))
    part = own.of(whole)
    filled = torch.full_like(whole, torch.nan)
    for index, matrix in enumerate(filled.chunk(count)):
        block, rows = own.rows(index, count)
        block.put(part[rows], matrix)
    kept = ~filled.isnan()
    assert int(kept.sum()) == own.numel
    assert torch.equal(filled[kept], whole[kept])


@given(placed())
def test_elements_of_the_whole_are_found_in_the_part(box: Box) -> None:
    whole = torch.arange(prod(box.whole)).view(box.whole)
    places = torch.arange(prod(box.whole))
    held, found = box.inside(places)
    assert torch.equal(torch.take(box.of(whole).contiguous(), found), places[held])
    assert int(held.sum()) == box.numel


@pytest.mark.parametrize("rows", [(64, 64), (50, 78), (0, 128)])
def test_gradient_moments_of_parts_add_up_to_those_of_the_whole(rows: tuple[int, int]) -> None:
    """Also of tensors that are sampled: the parts take the elements that the whole would."""
    torch.manual_seed(0)
    whole = torch.zeros(128, 32, requires_grad=True)
    assert whole.numel() > SAMPLED
    starts = (0, rows[0])
    boxes = [Box((128, 32), (start, 0), (count, 32)) for start, count in zip(starts, rows, strict=True)]
    parts = [torch.zeros(count, 32, requires_grad=True) for count in rows]
    own = GradientMoments([whole])
    split = [GradientMoments([p], [Share((128, 32), True, b)]) for p, b in zip(parts, boxes, strict=True)]
    for _ in range(3):
        whole.grad = torch.randn(128, 32)
        own.add()
        for part, box, moments in zip(parts, boxes, split, strict=True):
            part.grad = box.of(whole.grad).clone()
            moments.add()
    for expected, found in zip(own.read(), zip(*(moments.read() for moments in split), strict=True), strict=True):
        torch.testing.assert_close(torch.stack(found).nansum(0), expected, rtol=1e-12, atol=0)


def test_a_flat_part_of_a_large_matrix_is_sampled_like_a_matrix() -> None:
    """Its copy would be the largest of all if it passed for a vector."""
    flat, vector = torch.zeros(3000), torch.zeros(100)
    shares = [Share((100, 60), True, Box((6000,), (0,), (3000,))), None]
    previous = PreviousWeights([flat, vector], 4 * 600, shares)
    assert [previous.is_sampled(i) for i in (0, 1)] == [True, False]
    assert previous.copies[0].numel() == 500
    assert previous.scale(0) == 6.0
