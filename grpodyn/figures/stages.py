"""The stages of one run as one picture: accuracy, perplexity, movement by layer, and spectra, stage beside stage."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from grpodyn.figures.drawn import WIDTHS, Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, colour, dash, marker, styled
from grpodyn.figures.text import label, listed, number, per_cent, steps_axis, undefined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED_IN_PLACE = 4
"""Stages whose names fit above their part of the axis of steps."""
_TICKS = 10
_MOST_TEXTS = 5


@styled
def stages(found: Any, width: Width = "page") -> Drawn:
    """Draw what each stage of a run taught and cost, and how far it moved each layer and its spectra.

    Args:
        found: what the analysis `stages` returns.
        width: of the paper.
    """
    figure, axes = _sheet(width)
    _accuracy(axes[0], found)
    _perplexity(axes[1], found)
    columns = (
        ("moved", "moved by the stage itself", "‖W_end − W_start‖ / ‖W₀‖"),
        ("displacement", "moved since the beginning", "‖W_end − W₀‖ / ‖W₀‖"),
        ("spectral_shift", "spectra since the beginning", "‖σ(W_end) − σ(W₀)‖ / ‖σ(W₀)‖"),
    )
    for one, (name, title, unit) in zip(axes[2:], columns, strict=True):
        _by_layer(one, found, name, title, unit)
    handles, labels = axes[2].get_legend_handles_labels()
    if handles:
        columns_of_legend = min(len(labels), 5 if width == "page" else 2)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns_of_legend)
    return Drawn(figure, "stages", f"The stages of {label(found.run)}", _describe(found))


def _sheet(width: Width) -> tuple[Figure, list[Axes]]:
    if width not in WIDTHS or width == "column":
        return sheet(width, 9.0, 5, 1)
    figure = Figure(figsize=(WIDTHS[width], 4.9), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    above = [figure.add_subplot(grid[0, 3 * place : 3 * place + 3]) for place in range(2)]
    return figure, above + [figure.add_subplot(grid[1, 2 * place : 2 * place + 2]) for place in range(3)]


def _spans(axes: Axes, found: Any) -> None:
    """Shade each stage in its colour, and name it where there is room."""
    for place, stage in enumerate(found.stages):
        axes.axvspan(stage.start, stage.end, color=colour(place), alpha=0.13, linewidth=0)
        if place:
            axes.axvline(stage.start, color=FAINT, linewidth=0.6)
        if len(found.stages) <= _NAMED_IN_PLACE:
            middle = (stage.start + stage.end) / 2
            axes.text(
                middle, 1.01, label(stage.name, 14), transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                fontsize=7,
            )  # fmt: skip
    steps_axis(axes)


def _accuracy(axes: Axes, found: Any) -> None:
    curves: list[tuple[str, Any, str, Any, str | None]] = [("held-out, T=1", found.accuracy, INK, "-", ".")]
    if found.greedy:
        curves.append(("held-out, greedy", found.greedy, INK, ":", None))
    names = [stage.name for stage in found.stages]
    for place, (name, curve) in enumerate(found.retested.items()):
        at = names.index(name) if name in names else len(names) + place
        curves.append((f"again: {label(name, 16)}", curve, colour(at), dash(at), marker(at)))
    drawn = False
    for name, curve, paint, line, sign in curves:
        if curve:
            steps, values = zip(*curve, strict=True)
            axes.plot(steps, values, color=paint, linestyle=line, marker=sign, markersize=3, linewidth=1.1, label=name)
            drawn = True
    if found.tests and not found.retested:
        axes.plot(*zip(*found.tests, strict=True), linestyle="none", marker="x", color=FAINT, label="test of the stage")
        drawn = True
    if not drawn:
        undefined(axes, "no accuracy was measured")
        return
    if math.isfinite(found.level):
        axes.axhline(found.level, color=FAINT, linestyle="--", linewidth=0.9, label="mastered")
    axes.set_ylim(-0.02, 1.02)
    per_cent(axes.yaxis)
    axes.set_title("accuracy", pad=14)
    _spans(axes, found)
    axes.legend(fontsize=6, ncols=2 if len(curves) > _NAMED_IN_PLACE else 1)


def _perplexity(axes: Axes, found: Any) -> None:
    drawn = 0
    for name, curve in found.perplexity.items():
        first = curve[0][1]
        if drawn < _MOST_TEXTS and first > 0:
            steps, values = zip(*curve, strict=True)
            # Texts have no stage's colour.
            axes.plot(
                steps, np.array(values) / first, color=INK, linestyle=dash(drawn), marker=marker(drawn), markersize=3,
                linewidth=1.1, label=f"{label(name, 18)} ({number(first)} before)",
            )  # fmt: skip
            drawn += 1
    if not drawn:
        undefined(axes, "no perplexity was measured:\nset evaluate.texts")
        return
    axes.axhline(1.0, color=FAINT, linestyle="--", linewidth=0.9)
    axes.set_title("perplexity, over that before the first stage", pad=14)
    _spans(axes, found)
    axes.legend(fontsize=6)


def _by_layer(axes: Axes, found: Any, name: str, title: str, unit: str) -> None:
    places = np.arange(len(found.layers))
    known = False
    for place, stage in enumerate(found.stages):
        values = np.array(getattr(stage, name), float)
        known = known or bool(np.isfinite(values).any())
        # Drawn also where nothing is known, so that the legend names every stage once.
        axes.plot(
            places, values if values.size else [], color=colour(place), linestyle=dash(place), marker=marker(place),
            markersize=3, linewidth=1.1, label=f"{place + 1}: {label(stage.name, 18)}",
        )  # fmt: skip
    if not known:
        undefined(axes, f"not recorded:\n{title}")
        return
    stride = max(1, math.ceil(len(found.layers) / _TICKS))
    axes.set_xticks(places[::stride], labels=[label(one, 10) for one in found.layers[::stride]])
    axes.set_xlabel("layer")
    axes.set_ylabel(unit, fontsize=7)
    axes.set_ylim(bottom=0)
    per_cent(axes.yaxis)
    axes.set_title(title)


def _describe(found: Any) -> str:
    said = []
    for stage in found.stages:
        ended = "not ended" if stage.outcome is None else stage.outcome.replace("_", " ")
        parts = [f"Stage {stage.name}, steps {stage.start} to {stage.end}, {ended}"]
        if math.isfinite(stage.after.accuracy):
            parts.append(f"held-out accuracy {number(stage.before.accuracy)} to {number(stage.after.accuracy)}")
        texts = [f"of {name} {number(a)} to {number(b)}" for name, (a, b) in stage.perplexity.items()]
        if texts:
            parts.append(f"perplexity {listed(texts, 3)}")
        for name, what in (("moved", "it moved layers by"), ("spectral_shift", "the spectra have moved by")):
            values = np.array(getattr(stage, name), float)
            if np.isfinite(values).any():
                parts.append(f"{what} {number(float(np.nanmin(values)))} to {number(float(np.nanmax(values)))}")
        said.append("; ".join(parts) + ".")
    return " ".join(said)
