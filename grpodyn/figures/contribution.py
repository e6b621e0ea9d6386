"""Movement beside contribution: where the weights went, and where what they learned is stored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from grpodyn.figures.drawn import WIDTHS, Drawn, Width, sheet
from grpodyn.figures.layers import height, layer_axis
from grpodyn.figures.style import FAINT, SEQUENTIAL, colour, styled
from grpodyn.figures.text import counted, label, listed, number, per_cent, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOVED, _HOLDS = colour(0), colour(1)
_ANNOTATED = 120
"""Cells of a map that still have room for a number."""
_LONG_NAME = 14


@styled
def movement_and_contribution(dynamics: Any, attribution: Any = None, width: Width = "page") -> Drawn:
    """Draw the map of movement (layer by module), and beside each edge the shares of movement and of contribution.

    Args:
        dynamics: what the analysis `layer_dynamics` returns, with `modules`.
        attribution: an `Attribution` of the same run; without one, movement stands alone and the title says so.
        width: of the paper.
    """
    found = dynamics.modules
    moved = np.array(found.share)
    by_layer = {name: float(value) for name, value in zip(found.layers, np.nansum(moved, axis=1), strict=True)}
    by_module = {name: float(value) for name, value in zip(found.modules, np.nansum(moved, axis=0), strict=True)}
    layer_parts, module_parts = _parts(attribution, found)
    figure = Figure(figsize=(WIDTHS[width], height(len(found.layers)) + 1.9), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(2.2, 1.0), height_ratios=(height(len(found.layers)), 1.3))
    heat = figure.add_subplot(grid[0, 0])
    beside, below = figure.add_subplot(grid[0, 1], sharey=heat), figure.add_subplot(grid[1, 0], sharex=heat)
    _heat(heat, found, moved, annotate=width == "page" and moved.size <= _ANNOTATED)
    _edge(beside, list(by_layer.values()), layer_parts, sideways=True)
    beside.xaxis.set_major_locator(MaxNLocator(nbins=3 if width == "page" else 1))
    _edge(below, list(by_module.values()), module_parts, sideways=False)
    heat.tick_params(axis="x", labelbottom=False)
    beside.tick_params(axis="y", labelleft=False)
    names = [label(module, _LONG_NAME) for module in found.modules]
    below.set_xticks(np.arange(len(names)) + 0.5, labels=names, rotation=40 if width == "page" else 90)
    handles, labels = beside.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if width == "page" else 1)
    title = "Movement beside contribution" if attribution is not None else "Movement; contribution was not tested"
    alt = _describe(by_layer, by_module, layer_parts, module_parts, attribution, dynamics.run)
    return Drawn(figure, "movement_and_contribution", f"{title}, {label(dynamics.run)}", alt)


@styled
def truncation(attribution: Any, width: Width = "page") -> Drawn:
    """Draw how much of the gain is left where every change is cut to a rank.

    Args:
        attribution: an `Attribution` with `truncation`.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.5)
    rows = attribution.truncation
    ranks = [row.rank for row in rows]
    axes.fill_between(
        ranks, [r.kept.low for r in rows], [r.kept.high for r in rows], color=_MOVED, alpha=0.2, linewidth=0
    )
    axes.plot(ranks, [row.kept.value for row in rows], color=_MOVED, marker="o")
    axes.axhline(1.0, color=FAINT, linestyle="--", linewidth=0.9)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, labels=[str(rank) for rank in ranks])
    axes.set_xlabel("rank that every change is cut to")
    axes.set_ylabel("share of the gain")
    per_cent(axes.yaxis)
    told = [f"{share(row.kept.value)} at rank {row.rank}" for row in rows]
    alt = f"Share of the gain that is left where every change is replaced by its best approximation: {listed(told, 8)}."
    return Drawn(figure, "truncation", "How many directions the gain needs", alt)


_Part = tuple[str, tuple[int, ...], Any]
"""Name, places on the axis, share with its interval."""


def _parts(attribution: Any, found: Any) -> tuple[list[_Part], list[_Part]]:
    """Return what each layer (or block of layers) and each module type holds, at its places in the map."""
    if attribution is None:
        return [], []
    layers: list[_Part] = []
    for part in attribution.layers:
        names = {str(index) for index in part.layers} | {f"{part.stack}.{index}" for index in part.layers}
        places = tuple(place for place, name in enumerate(found.layers) if name in names)
        if places:
            layers.append((part.part, places, part.share))
    types = [part for part in attribution.of_partition("modules") if part.part in found.modules]
    return layers, [(part.part, (found.modules.index(part.part),), part.share) for part in types]


def _heat(axes: Axes, found: Any, moved: Any, annotate: bool) -> None:
    sns.heatmap(
        100 * moved, ax=axes, cmap=SEQUENTIAL, vmin=0, annot=annotate, fmt=".1f", annot_kws={"fontsize": 6},
        cbar_kws={"label": "% of the squared movement", "location": "top", "aspect": 40, "pad": 0.01},
        rasterized=True, xticklabels=False, yticklabels=False,
    )  # fmt: skip
    bar: Any = axes.collections[0].colorbar
    bar.outline.set_visible(False)
    axes.grid(visible=False)
    # Layer 0 is at the bottom, as in every other map; seaborn's cells begin at whole numbers.
    axes.set_ylim(0, len(found.layers))
    layer_axis(axes, found.layers, first=0.5)


def _edge(axes: Axes, moved: Sequence[float], parts: Sequence[_Part], sideways: bool) -> None:
    """Draw shares along one edge of the map: movement as bars, contribution as points with intervals."""
    at = np.arange(len(moved)) + 0.5
    (axes.barh if sideways else axes.bar)(at, moved, 0.7, color=_MOVED, alpha=0.55, label="share of movement")
    name = "share of the gain stored there"
    for _, places, held in parts:
        # A block of layers was tested as one: each of them gets an equal part, over the length of the block.
        value, low, high = (getattr(held, end) / len(places) for end in ("value", "low", "high"))
        middle = float(np.mean(at[list(places)]))
        span = [at[places[0]] - 0.35, at[places[-1]] + 0.35]
        if sideways:
            axes.plot([low, high], [middle, middle], color=_HOLDS, linewidth=1.2)
            axes.plot([value, value], span, color=_HOLDS, linewidth=2.4, label=name)
        else:
            axes.plot([middle, middle], [low, high], color=_HOLDS, linewidth=1.2)
            axes.plot(span, [value, value], color=_HOLDS, linewidth=2.4, label=name)
        name = f"_{name}"
    axis = axes.xaxis if sideways else axes.yaxis
    axis.set_major_locator(MaxNLocator(nbins=3))
    per_cent(axis)
    (axes.axvline if sideways else axes.axhline)(0.0, color=FAINT, linewidth=0.8)


def _describe(
    by_layer: Mapping[str, float],
    by_module: Mapping[str, float],
    layer_parts: Sequence[_Part],
    module_parts: Sequence[_Part],
    attribution: Any,
    run: str,
) -> str:
    said = [
        f"Net displacement of {run}, {counted(len(by_layer), 'layer')} by {counted(len(by_module), 'module type')}. "
        f"Most movement by layer: {_most(by_layer)}; by module type: {_most(by_module)}."
    ]
    if attribution is None:
        return f"{said[0]} Contribution was not tested, so nothing is said about it."
    for what, parts in (("layer", layer_parts), ("module type", module_parts)):
        ranked = sorted(parts, key=lambda part: -part[2].value)
        told = [
            f"{name} {share(held.value)} ({number(100 * held.low, '.0f')} to {number(100 * held.high, '.0f')})"
            for name, _, held in ranked[:3]
        ]
        if told:
            said.append(f"Most of the gain by {what}: {listed(told)}.")
    said.append(f"Verdict of the patch test: {attribution.verdict}.")
    return " ".join(said)


def _most(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda pair: -pair[1] if not math.isnan(pair[1]) else math.inf)
    return listed([f"{name} {share(value)}" for name, value in ranked[:3]])
