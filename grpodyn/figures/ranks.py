"""In how many directions the weights have moved."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.ticker import MaxNLocator

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, colour, dash, is_crowded, marker, styled
from grpodyn.figures.text import counted, label, listed, number, plain_numbers, steps_axis

_TITLES = {
    "effective_rank": "effective rank",
    "stable_rank": "stable rank",
    "energy_rank_90": "directions that hold 90 %",
}
_MOST_MODULES = 10
_MOST_MARKERS = 25
"""On one line."""
_FAR = 6.0
"""A cap further off than that, as a ratio, is told and not drawn: it would flatten everything else."""


@styled
def ranks(course: Any, width: Width = "page") -> Drawn:
    """Draw the ranks of the displacement over a run, by module type, with the cap where it is near.

    Args:
        course: what the analysis `rank_course` returns.
        width: of the paper.
    """
    names = list(course.ranks)[: 3 if width == "page" else 2]
    figure, axes = (
        sheet(width, 2.7, 1, len(names)) if width == "page" else sheet(width, 1.9 * len(names) + 0.7, len(names), 1)
    )
    for one, name in zip(axes, names, strict=True):
        panel(one, course, name)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4 if width == "page" else 2)
    return Drawn(figure, "ranks", f"Ranks of Wₜ − W₀, {label(course.run)}", _describe(course))


def panel(axes: Any, course: Any, name: str) -> None:
    """Draw one rank over a run into axes."""
    found = course.ranks[name][:_MOST_MODULES]
    # Each marker is an element of its own in a vector file, and hundreds of them tell nobody anything.
    every = max(1, len(course.steps) // _MOST_MARKERS)
    for place, one in enumerate(found):
        axes.fill_between(
            course.steps, one.low, one.high, color=colour(place), alpha=0.12, linewidth=0,
            rasterized=is_crowded(len(course.steps) * len(found)),
        )  # fmt: skip
        axes.plot(
            course.steps, one.median, color=colour(place), linestyle=dash(place), marker=marker(place), markersize=3,
            markevery=every, label=label(one.module, 16),
        )  # fmt: skip
    top = max((value for one in found for value in one.high if not math.isnan(value)), default=1.0)
    caps = sorted({one.cap for one in found if not math.isnan(one.cap)})
    for cap in caps:
        if cap <= _FAR * top:
            axes.axhline(cap, color=FAINT, linewidth=1.0, linestyle="--")
            axes.annotate(
                f"cap {cap:g}", (1.0, cap), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7
            )
    axes.set_ylim(bottom=0)
    axes.set_title(_TITLES.get(name, name.replace("_", " ")))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    steps_axis(axes)


@styled
def spectra(course: Any, width: Width = "page") -> Drawn:
    """Draw the leading singular values of the displacement at the end, by module type, over the greatest of each.

    Args:
        course: what the analysis `rank_course` returns, with `spectra`.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.7)
    for place, one in enumerate(course.spectra[:_MOST_MODULES]):
        k = range(1, len(one.values) + 1)
        axes.fill_between(k, one.low, one.high, color=colour(place), alpha=0.12, linewidth=0)
        axes.plot(
            k, one.values, color=colour(place), linestyle=dash(place), marker=marker(place), markersize=3,
            label=label(one.module, 16),
        )  # fmt: skip
    axes.set_xlabel("k")
    axes.set_ylabel("σₖ / σ₁")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)
    axes.legend(ncols=2 if width == "page" else 1)
    step = course.spectra[0].step
    told = [f"{one.module} {number(one.values[1])}" for one in course.spectra if len(one.values) > 1]
    last = [f"{one.module} {number(one.values[-1])}" for one in course.spectra]
    alt = (
        f"Leading singular values of the displacement of {course.run} at step {step}, over the greatest. The second is "
        f"{listed(told, 7) or 'not recorded'}; the last that was kept: {listed(last, 7)}."
    )
    return Drawn(figure, "spectra", f"Singular values of Wₜ − W₀ at step {step}, {label(course.run)}", alt)


def _describe(course: Any) -> str:
    found = course.ranks.get("effective_rank", ())
    told = [
        f"{one.module} {number(_last(one.median))} (matrices {number(_last(one.low))} to "
        f"{number(_last(one.high))}, cap {one.cap:g})"
        for one in found
    ]
    return (
        f"Ranks of the displacement of {course.run} at {counted(len(course.steps), 'sweep')}, the last at step "
        f"{course.steps[-1]}. Effective rank there, median over matrices: {listed(told, 7) or 'unknown'}."
    )


def _last(values: Any) -> float:
    return next((value for value in reversed(values) if not math.isnan(value)), math.nan)
