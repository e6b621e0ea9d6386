"""Draws what is lost by choosing where to train with each predictor.

    python reports/placement_figure.py docs/results/placement.json -o docs/figures/placement.png

Reads what `reports/placement.py --json` wrote and judges nothing. Predictors that look at a whole source run are drawn,
and those of a first tenth; what a trace says after parts of a run stands in the page's tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_PANELS = {"layers": "which layer", "modules": "which module type"}


def draw(found: Mapping[str, Any]) -> Figure:
    """Return a panel a family of parts: a dot a task, a bar at the mean, the predictor that loses least on top.

    A predictor that says nothing of some task has no mean to stand beside the others' and is left out.
    """
    whole = [choice for choice in found["choices"] if choice["predictor"]["share"] == 1]
    families = [kind for kind in _PANELS if any(choice["family"] == kind for choice in whole)]
    rows = max((len({_label(c) for c in whole if c["family"] == kind}) for kind in families), default=1)
    figure = Figure(figsize=(7.6 * max(1, len(families)), 0.24 * rows + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    tasks = list(dict.fromkeys(choice["task"] for choice in whole))
    colors = dict(zip(tasks, sns.color_palette("colorblind", len(tasks)), strict=True))
    axes = figure.subplots(1, max(1, len(families)), squeeze=False)[0]
    for panel, kind in zip(axes, families, strict=False):
        _panel(panel, [choice for choice in whole if choice["family"] == kind], colors)
        chance = [of_task[kind] for of_task in found["chance"].values() if kind in of_task]
        panel.axvline(fmean(chance), linestyle="--", color="0.5", linewidth=0.8)
        panel.set_title(_PANELS[kind])
    if tasks and families:
        axes[0].legend(frameon=False, fontsize=8, loc="center right")
    return figure


def _panel(panel: Axes, choices: Sequence[Mapping[str, Any]], colors: Mapping[str, Any]) -> None:
    by: dict[str, dict[str, float]] = {}
    for choice in choices:
        by.setdefault(_label(choice), {})[choice["task"]] = choice["lost_share"]
    whole = [label for label, of in by.items() if len(of) == max(map(len, by.values()))]
    order = sorted(whole, key=lambda label: fmean(by[label].values()), reverse=True)
    panel.barh(range(len(order)), [fmean(by[label].values()) for label in order], color="0.88")
    for task, color in colors.items():
        known = [(by[label][task], row) for row, label in enumerate(order) if task in by[label]]
        panel.plot([lost for lost, _ in known], [row for _, row in known], "o", color=color, markersize=4, label=task)
    panel.set_yticks(range(len(order)), order, fontsize=8)
    panel.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    panel.set_xlabel("of the best gain, lost (dashed: at random)")


def _label(choice: Mapping[str, Any]) -> str:
    return f"{choice['predictor']['name']}, {choice['predictor']['source']}"


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, help="JSON that reports/placement.py wrote")
    parser.add_argument("-o", "--output", type=Path, required=True, help="picture to draw")
    arguments = parser.parse_args()
    draw(json.loads(arguments.found.read_text())).savefig(arguments.output, dpi=110)


if __name__ == "__main__":
    main()
