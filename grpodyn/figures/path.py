"""How long the way of each layer is, and how far it has led."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, SEQUENTIAL, styled
from grpodyn.figures.text import counted, label, listed, number, plain_numbers

_MOST_POINTS = 120


@styled
def path_and_displacement(found: Any, width: Width = "page") -> Drawn:
    """Draw each layer's displacement against its path length: on the diagonal it never turned back.

    Args:
        found: what the analysis `path_and_displacement` returns.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 3.0)
    ways = found.layers or found.tensors
    scale = ScalarMappable(Normalize(0, max(len(ways) - 1, 1)), mpl.colormaps[SEQUENTIAL])
    paints = scale.to_rgba(np.arange(len(ways)))
    picked = _picked(len(found.steps))
    for place, way in enumerate(ways):
        path, distance = np.array(way.path)[picked], np.array(way.displacement)[picked]
        axes.plot(path, distance, color=paints[place], linewidth=1.0)
        axes.plot(path[-1:], distance[-1:], marker="o", markersize=3, color=paints[place])
    reach = max((way.displacement[-1] for way in ways if math.isfinite(way.displacement[-1])), default=1.0)
    axes.plot([0, reach], [0, reach], color=FAINT, linestyle="--", linewidth=1.0)
    axes.annotate("straight line", (reach, reach), ha="right", va="bottom", fontsize=7)
    axes.set_xlabel("path length Σ‖ΔW‖")
    axes.set_ylabel("displacement ‖Wₜ − W₀‖")
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis)
    if len(ways) > 1:
        bar = figure.colorbar(scale, ax=axes, pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label("layer" if found.layers else "tensor")
        bar.set_ticks([0, len(ways) - 1], labels=[_short(ways[0].name), _short(ways[-1].name)])
    return Drawn(
        figure, "path_and_displacement", "Path length against displacement, layer by layer", _describe(found, ways)
    )


def _picked(rows: int) -> Any:
    return np.unique(np.linspace(0, rows - 1, min(rows, _MOST_POINTS)).round().astype(int))


def _short(name: str) -> str:
    return label(name.rpartition(".")[2] or name, 12)


def _describe(found: Any, ways: Any) -> str:
    known = [(way.coherence[-1], way) for way in ways if math.isfinite(way.coherence[-1])]
    if not known:
        return f"Path length against displacement of {counted(len(ways), 'layer')}: no finite value at the end."
    known.sort(key=lambda pair: -pair[0])
    most, least = known[0], known[-1]
    return (
        f"Displacement against path length of {counted(len(ways), 'layer')} up to step {found.steps[-1]}. Displacement "
        f"over path at the end, 1 being a straight line: {listed([f'{number(most[0])} in {most[1].name}'])} at most, "
        f"{number(least[0])} in {least[1].name} at least; a walk at random would give about "
        f"{number(1 / math.sqrt(max(found.steps[-1], 1)))}."
    )
