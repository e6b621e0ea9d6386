"""How every figure looks: paper sizes, type, and colours that colour-blind readers tell apart on white and on black."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import matplotlib as mpl

P = ParamSpec("P")
T = TypeVar("T")

INK: Final = "#1f2328"
"""Text and axes. In a browser's dark mode it turns light, so nothing else may have this colour."""
LINE: Final = "#d0d7de"
"""Grids. It turns dark there."""
FAINT: Final = "#7d8590"
"""Half-tones that are seen on white and on black."""

COLOURS: Final = ("#2878bd", "#d55e00", "#009e73", "#c4699d", "#ab8000", "#3a9bd0", "#8468cc")
"""After Okabe & Ito, moved so that each has a contrast of 3 : 1 on white and on black."""
MARKERS: Final = ("o", "^", "s", "D", "v", "P", "X")
DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
"""A second sign beside each colour."""
SEQUENTIAL: Final = "viridis"

_STYLE: Final[Any] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "figure.dpi": 110,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    # Names out of a run are text: a dollar sign in one is no formula, whatever a user's own settings say.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "grpodyn",
    "pdf.fonttype": 42,
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Let a function draw in the house's style, and leave matplotlib's settings as they were."""

    @wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawing


def colour(place: int) -> str:
    """Return the colour of the n-th series; they repeat after seven, with another dash and marker beside them."""
    return COLOURS[place % len(COLOURS)]


def dash(place: int) -> Any:
    """Return the dash of the n-th series."""
    return DASHES[(place + place // len(COLOURS)) % len(DASHES)]


def is_crowded(points: int) -> bool:
    """Return whether so many points are better stored as pixels: a vector file would hold each of them."""
    return points > 1500


def marker(place: int) -> str:
    """Return the marker of the n-th series."""
    return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
