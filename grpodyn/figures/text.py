"""Words in and about figures: names out of a run, numbers, and axes of steps."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FuncFormatter, MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 36


def label(text: object, longest: int = LONGEST) -> str:
    """Return a name as a figure can show it: one line, not too long, and without characters that its font lacks.

    >>> label("runs/äñ one"), label("a\\nb\\x1b"), label("長" + "x" * 50, 10)
    ('runs/äñ one', 'a b?', '?xxxx…xxxx')
    """
    line = " ".join(str(text).split())
    if len(line) > longest:
        half = (longest - 1) // 2
        line = f"{line[: longest - 1 - half]}…{line[len(line) - half :]}"
    return "".join(one if one == " " or _drawable(one) else "?" for one in line)


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))


@cache
def _drawable(character: str) -> bool:
    return not unicodedata.category(character).startswith("C") and _font().get_char_index(ord(character)) != 0


def number(value: float, form: str = ".3g") -> str:
    """Return a number for a sentence; what is not known is called that.

    >>> number(0.12345), number(float("nan")), number(1234567.0, ",.0f")
    ('0.123', 'unknown', '1,234,567')
    """
    if math.isnan(value):
        return "unknown"
    return ("minus " if value < 0 else "") + "infinite" if math.isinf(value) else format(value, form)


def share(value: float) -> str:
    """Return a share in per cent.

    >>> share(0.256), share(float("nan"))
    ('26 %', 'unknown')
    """
    return "unknown" if math.isnan(value) else f"{100 * value:.0f} %"


def counted(count: int, noun: str) -> str:
    """Return how many there are of something.

    >>> counted(1, "layer"), counted(0, "run"), counted(1200, "prompt")
    ('1 layer', '0 runs', '1,200 prompts')
    """
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def listed(parts: Sequence[str], most: int = 4) -> str:
    """Return parts as an enumeration, cut after `most`.

    >>> listed(["a", "b"]), listed(list("abcdef"), 2)
    ('a and b', 'a, b and 4 more')
    """
    shown = list(parts[:most])
    if len(parts) > most:
        return f"{', '.join(shown)} and {len(parts) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def steps_axis(axes: Axes, name: str = "optimizer step") -> None:
    """Let the horizontal axis count steps: whole numbers, few ticks."""
    axes.set_xlabel(name)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(_whole))


def plain_numbers(axis: Any) -> None:
    """Write an axis' ticks as plain numbers, also where it is logarithmic: no formula is needed."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def per_cent(axis: Any) -> None:
    """Write an axis' ticks as per cent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _whole(value: float, _: Any) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"


def undefined(axes: Axes, sentence: str) -> None:
    """Write in place of a panel what the result does not hold."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, sentence, ha="center", va="center", wrap=True, transform=axes.transAxes)
