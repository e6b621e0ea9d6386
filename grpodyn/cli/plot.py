"""A plot in characters: braille dots where the terminal can show them, plain characters elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.text import Text

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of the dot in (row, column) of a character."""
_NOTHING = 1e-12


class Canvas:
    """Points in a rectangle of characters, in layers: where two meet in a character, the later one gives the style.

    Args:
        width: in characters.
        height: in characters.
        x: range of positions, left and right.
        y: range of values, bottom and top.
        plain: draw with the characters of the layers, for terminals without braille.
    """

    def __init__(
        self, width: int, height: int, x: tuple[float, float], y: tuple[float, float], plain: bool = False
    ) -> None:
        self._width, self._height = width, height
        self._x, self._y = x, y
        self._plain = plain
        self._bits = [[0] * width for _ in range(height)]
        self._look: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(height)]

    def draw(self, points: Iterable[tuple[float, float]], mark: str, style: str) -> None:
        """Draw a layer; points outside of the rectangle, and undefined ones, are left out."""
        for x, y in points:
            column, row = self._place(x, self._x, 2 * self._width), self._place(y, self._y, 4 * self._height)
            if column is None or row is None:
                continue
            row = 4 * self._height - 1 - row
            self._bits[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            self._look[row // 4][column // 2] = (mark, style)

    def rows(self) -> list[Text]:
        """Return the rows of characters, from the top."""
        lines = []
        for bits, looks in zip(self._bits, self._look, strict=True):
            line = Text()
            for bit, (mark, style) in zip(bits, looks, strict=True):
                character = mark if self._plain else chr(_BRAILLE + bit)
                line.append(character if bit else " ", style=style)
            lines.append(line)
        return lines

    @staticmethod
    def _place(value: float, span: tuple[float, float], dots: int) -> int | None:
        if not math.isfinite(value) or not span[0] <= value <= span[1]:
            return None
        share = (value - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 0.5
        return min(dots - 1, int(share * dots))


def line(steps: Sequence[float], values: Sequence[float], dots: int) -> list[tuple[float, float]]:
    """Return points along straight lines between the given ones, `dots` over the whole range.

    >>> line([0, 2], [0, 4], 3)
    [(0.0, 0.0), (1.0, 2.0), (2.0, 4.0)]
    """
    if len(steps) < 2:
        return list(zip(steps, values, strict=True))
    first, last = steps[0], steps[-1]
    found, at = [], 0
    for i in range(dots):
        x = first + (last - first) * i / (dots - 1)
        while at < len(steps) - 2 and steps[at + 1] < x:
            at += 1
        width = steps[at + 1] - steps[at]
        share = (x - steps[at]) / width if width else 0.0
        found.append((x, values[at] + share * (values[at + 1] - values[at])))
    return found


def span(values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the greatest finite value, kept apart where they are nearly one; (0, 1) where none is.

    >>> span([3.0, float("nan"), 1.0]), span([1.0, 1.0]), span([])
    ((1.0, 3.0), (0.95, 1.05), (0.0, 1.0))
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    size = max(abs(low), abs(high))
    # What differs by rounding alone would fill the plot with noise.
    same = high - low <= max(1e-9 * size, _NOTHING)
    slack = 0.05 * (size if size > _NOTHING else 1.0) if same else 0.0
    return low - slack, high + slack
