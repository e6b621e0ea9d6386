"""Runs and arms beside each other, with the noise of their seeds."""

from __future__ import annotations

import math
from typing import Any

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, colour, dash, marker, styled
from grpodyn.figures.text import counted, label, listed, number, steps_axis, undefined

MOST_ARMS = 7


@styled
def comparison(found: Any, metric: str, width: Width = "page") -> Drawn:
    """Draw one metric of every arm over steps, with the band of its seeds.

    Args:
        found: what the analysis `run_comparison` returns.
        metric: one that all arms have.
        width: of the paper.
    """
    bands = dict(found.metrics.bands)[metric]
    figure, (axes,) = sheet(width, 2.9)
    for place, band in enumerate(bands[:MOST_ARMS]):
        low = [value.low for value in band.values]
        high = [value.high for value in band.values]
        name = label(band.arm, 28)
        if not all(math.isnan(value) for value in low):
            axes.fill_between(band.last_step, low, high, color=colour(place), alpha=0.2, linewidth=0)
            name = f"{name} (n={len(band.runs)})"
        axes.plot(
            band.last_step, [value.value for value in band.values], color=colour(place), linestyle=dash(place),
            marker=marker(place), label=name,
        )  # fmt: skip
    steps_axis(axes)
    axes.set_ylabel(label(metric))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2 if width == "page" else 1)
    return Drawn(figure, f"comparison_{_slug(metric)}", f"{label(metric)} of each arm", _describe(bands, metric))


@styled
def arms(found: Any, width: Width = "page") -> Drawn:
    """Draw the held-out accuracy of each arm of an ablation, with its interval over seeds, beside the base.

    Args:
        found: an `Ablation`, as `grpodyn.ablation.results.load` returns it.
        width: of the paper.
    """
    rows = [row for row in found.arms if not math.isnan(row.accuracy.value)]
    figure, (axes,) = sheet(width, 1.1 + 0.26 * len(rows))
    if not rows:
        undefined(axes, "no arm has a result yet")
    tasks = list(dict.fromkeys(row.task for row in rows))
    for place, row in enumerate(rows):
        paint = colour(tasks.index(row.task))
        value = row.accuracy
        if not math.isnan(value.low):
            axes.plot([value.low, value.high], [place, place], color=paint, linewidth=2.0)
        axes.plot(value.value, place, marker=marker(tasks.index(row.task)), markersize=6, color=paint)
    for base in found.bases:
        axes.axvline(base.accuracy, color=FAINT, linewidth=0.9, linestyle="--")
        axes.annotate(
            "base", (base.accuracy, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7
        )
    several = len(tasks) > 1
    names = [label(f"{row.arm}, {row.task}" if several else row.arm, 26) for row in rows]
    axes.set_yticks(range(len(rows)), labels=[f"{name}  {_parameters(r)}" for name, r in zip(names, rows, strict=True)])
    axes.invert_yaxis()
    axes.tick_params(axis="y", color=INK)
    axes.set_xlabel("held-out accuracy at T=1")
    told = [
        f"{name} {number(row.accuracy.value)} ({number(row.accuracy.low)} to {number(row.accuracy.high)})"
        for name, row in zip(names, rows, strict=True)
    ]
    arms_told = f"{counted(len(rows), 'arm')} over their seeds: {listed(told, 8) or 'none yet'}"
    alt = f"Held-out accuracy of {arms_told}. {found.verdict}"
    return Drawn(figure, "arms", "Adapters trained against each other", alt)


def _parameters(row: Any) -> str:
    return (
        f"{row.trainable_params / 1e6:.3g} M" if row.trainable_params >= 1e5 else f"{row.trainable_params / 1e3:.3g} k"
    )


def _slug(metric: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in metric)


def _describe(bands: Any, metric: str) -> str:
    ends = []
    for band in bands:
        last = band.values[-1]
        interval = (
            ""
            if math.isnan(last.low)
            else f" ({number(last.low)} to {number(last.high)} over {counted(len(band.runs), 'run')})"
        )
        ends.append(f"{band.arm} {number(last.value)}{interval}")
    more = f" The first {MOST_ARMS} of {len(bands)} are drawn." if len(bands) > MOST_ARMS else ""
    return f"{metric} up to step {bands[0].last_step[-1]}. In the last window: {listed(ends, 8)}.{more}"
