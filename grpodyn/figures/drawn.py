"""A drawn figure with its words, and the sheet that it is drawn on."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grpodyn.errors import UnknownNameError
from grpodyn.figures.style import INK, LINE, styled

Width = Literal["page", "column"]
WIDTHS: dict[Width, float] = {"page": 6.75, "column": 3.25}
"""Inches: the text of a page, and one of its two columns."""
FORMATS = ("svg", "pdf", "png")
PNG_DPI = 300

_DARK = (
    f"<style>:root{{--ink:{INK};--line:{LINE}}}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--line:#3d444d}}</style>"
)


@dataclass(frozen=True)
class Drawn:
    """A figure, its title, and what it shows in words."""

    figure: Figure
    name: str
    """Name of the function that drew it; a file name."""
    title: str
    alt: str
    """What a reader who does not see the figure must know, from its numbers."""

    @styled
    def save(self, path: str | Path) -> Path:
        """Write the figure at its paper size, in the format of the file's ending: svg, pdf, or png at 300 dpi.

        Raises:
            UnknownNameError: the ending names no such format.
            OSError: the file cannot be written.
        """
        target = Path(path)
        kind = target.suffix.removeprefix(".").lower()
        if kind not in FORMATS:
            raise UnknownNameError.among("figure format", kind, FORMATS)
        # On paper there is no dark mode, and a transparent page is black in some viewers.
        metadata = {"Title": self.title, "Description": self.alt} if kind == "png" else {"Title": self.title}
        undated = {} if kind == "png" else {"CreationDate" if kind == "pdf" else "Date": None}
        self.figure.savefig(target, format=kind, dpi=PNG_DPI, facecolor="white", metadata={**metadata, **undated})
        return target

    @styled
    def svg(self) -> str:
        """Return the figure as SVG for a browser: its text and lines follow light and dark mode."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        text = re.sub(r"<!--.*?-->\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
        text = text.replace(INK, "var(--ink)").replace(LINE, "var(--line)")
        head = text.index(">") + 1
        return text[:head] + _DARK + text[head:]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": f"{self.title}. {self.alt}"}


def sheet(width: Width, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its axes, row by row.

    Args:
        width: of the paper.
        height: inches.
        rows: of axes.
        columns: of axes.
        options: as `Figure.subplots` takes them.

    Raises:
        UnknownNameError: there is no such width.
    """
    if width not in WIDTHS:
        raise UnknownNameError.among("width", width, WIDTHS)
    figure = Figure(figsize=(WIDTHS[width], height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(np.asarray(axes).flat)
