"""Where a part of a tensor lies in the whole: a box of it, or a range of its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class Box:
    """A part of a tensor: `shape` elements from `start` on, in each dimension of `whole`.

    A part that is cut out of the flattened tensor, row by row, is a box of one dimension.
    """

    whole: tuple[int, ...]
    """Shape of the whole tensor, or its number of elements alone."""
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Elements of the part."""
        return prod(self.shape)

    def rows(self, index: int, count: int) -> tuple[Box, slice]:
        """Return what lies in one of `count` equal blocks of rows: the box in that block, and where the part has it.

        Args:
            index: which block.
            count: how many there are; they divide the first dimension of the whole.

        >>> Box((4, 3), (1, 0), (2, 3)).rows(0, 2)
        (Box(whole=(2, 3), start=(1, 0), shape=(1, 3)), slice(0, 1, None))
        """
        length = self.whole[0] // count
        first, last = index * length, (index + 1) * length
        begin = min(max(self.start[0], first), last)
        end = max(min(self.start[0] + self.shape[0], last), begin)
        taken = slice(begin - self.start[0], end - self.start[0]) if end > begin else slice(0, 0)
        block = Box((length, *self.whole[1:]), (begin - first, *self.start[1:]), (end - begin, *self.shape[1:]))
        return block, taken

    def of(self, whole: Tensor) -> Tensor:
        """Return the part's values of a contiguous whole tensor, of any shape, as a view of it."""
        part = whole.view(self.whole)
        for dim, (start, length) in enumerate(zip(self.start, self.shape, strict=True)):
            part = part.narrow(dim, start, length)
        return part

    def put(self, values: Tensor, whole: Tensor) -> None:
        """Write the part's values, of any shape, to their place in a contiguous whole tensor, of any shape."""
        self.of(whole).copy_(values.reshape(self.shape))

    def inside(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of some elements of the whole lie in the part, and where they lie in it.

        Args:
            places: places in the flattened whole, int64 of shape (n,).

        Returns:
            bool of shape (n,), and the m places in the flattened part of those that lie in it, int64.
        """
        held = torch.ones_like(places, dtype=torch.bool)
        found, left = torch.zeros_like(places), places
        steps = [prod(self.whole[dim + 1 :]) for dim in range(len(self.whole))]
        own = [prod(self.shape[dim + 1 :]) for dim in range(len(self.whole))]
        for step, mine, start, length in zip(steps, own, self.start, self.shape, strict=True):
            at, left = left // step - start, left % step
            held &= (at >= 0) & (at < length)
            found += at * mine
        return held, found[held]
