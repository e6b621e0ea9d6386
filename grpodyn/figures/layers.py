"""Layer by step: how much each layer moves in a step, and how far it has come."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, SEQUENTIAL, styled
from grpodyn.figures.text import counted, label, listed, number, plain_numbers, steps_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORDERS = 20.0
"""Where the values that matter lie further apart than that, colours are logarithmic."""
_TICKS = 14


@styled
def relative_update(dynamics: Any, width: Width = "page") -> Drawn:
    """Draw how much each layer moves in a step, relative to its size: layers upwards, steps to the right.

    Args:
        dynamics: what the analysis `layer_dynamics` returns, with `update`.
        width: of the paper.
    """
    return _drawn(
        "relative_update", dynamics, dynamics.update, "Relative update of each layer", "‖ΔW‖ / ‖W‖ a step", width
    )


@styled
def displacement(dynamics: Any, width: Width = "page") -> Drawn:
    """Draw how far each layer is from where it began, relative to its size.

    Args:
        dynamics: what the analysis `layer_dynamics` returns, with `displacement`.
        width: of the paper.
    """
    return _drawn(
        "displacement", dynamics, dynamics.displacement, "Net displacement of each layer", "‖Wₜ − W₀‖ / ‖W₀‖", width
    )


def _drawn(name: str, dynamics: Any, found: Any, title: str, unit: str, width: Width) -> Drawn:
    figure, (axes,) = sheet(width, height(len(found.layers)))
    panel(axes, found, unit)
    return Drawn(figure, name, f"{title}, {label(dynamics.run)}", describe(found, title, dynamics.run))


def height(layers: int) -> float:
    """Return a height in inches at which so many layers can be told apart."""
    return float(np.clip(1.3 + 0.055 * layers, 2.4, 5.6))


def panel(axes: Axes, found: Any, unit: str) -> None:
    """Draw a map of layers and steps into axes, with its colour bar."""
    values = np.array(found.values)
    mesh = axes.pcolormesh(
        edges(found.steps), np.arange(len(found.layers) + 1) - 0.5, values, cmap=SEQUENTIAL, norm=norm(values),
        rasterized=True,
    )  # fmt: skip
    # What was not recorded shows through: no colour of the scale.
    axes.set_facecolor(f"{FAINT}40")
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, aspect=30)
    bar.set_label(unit)
    bar.outline.set_visible(False)
    plain_numbers(bar.ax.yaxis)
    axes.grid(visible=False)
    layer_axis(axes, found.layers)
    steps_axis(axes)


def norm(values: Any) -> Normalize:
    """Return a scale for a map: linear from 0, logarithmic where the values differ by orders of magnitude."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return Normalize(0.0, 1.0)
    low, high = np.quantile(positive, [0.02, 1.0])
    if high / low > _ORDERS:
        return LogNorm(float(low), float(high))
    return Normalize(0.0, float(high))


def edges(steps: Any) -> Any:
    """Return the bounds of each column: half-way between steps."""
    at = np.asarray(steps, float)
    if len(at) == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    middle = (at[1:] + at[:-1]) / 2
    return np.concatenate([[at[0] - (middle[0] - at[0])], middle, [at[-1] + (at[-1] - middle[-1])]])


def layer_axis(axes: Axes, layers: Any, first: float = 0.0) -> None:
    """Name layers on the vertical axis, the first of them at `first`; of many, every so many-th."""
    stride = max(1, math.ceil(len(layers) / _TICKS))
    places = list(range(0, len(layers), stride))
    axes.set_yticks([first + place for place in places], labels=[label(layers[place], 14) for place in places])
    axes.set_ylabel("layer")
    axes.tick_params(color=INK)


def describe(found: Any, title: str, run: str) -> str:
    """Return a map in words."""
    last = np.array(found.values)[:, -1]
    mean = np.array(
        [row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in np.array(found.values)]
    )
    if not np.isfinite(mean).any():
        return f"{title} of {run}: no finite value."
    order = np.argsort(np.where(np.isfinite(mean), -mean, np.inf))
    most = [f"layer {found.layers[i]} ({number(mean[i])})" for i in order[: min(3, np.isfinite(mean).sum())]]
    least = order[: np.isfinite(mean).sum()][-1]
    return (
        f"{title} of {run}, {counted(len(found.layers), 'layer')}, steps {found.steps[0]} to {found.steps[-1]}. "
        f"Largest on average over the run: {listed(most)}; "
        f"smallest: layer {found.layers[least]} ({number(mean[least])}). At the "
        f"end between {number(_extreme(last, np.min))} and {number(_extreme(last, np.max))}."
    )


def _extreme(values: Any, pick: Any) -> float:
    finite = values[np.isfinite(values)]
    return float(pick(finite)) if finite.size else math.nan
