"""Draws the learning curves of an ablation: how soon each arm of a primary comparison gets where it gets.

    python reports/ablation_curves.py runs/lora-advice -o docs/figures/lora-advice-curves.png

Reads `ablation.json` and `results.jsonl`; lines are means over test seeds, bands their 95 % t intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from grpodyn.ablation.ledger import LEDGER, read
from grpodyn.ablation.records import Record
from grpodyn.ablation.results import Ablation, ArmResult, load
from grpodyn.statistics import Interval, mean_interval

Curve = dict[int, Interval]
"""Step → accuracy over seeds."""


def curve(arm: ArmResult, records: Sequence[Record]) -> Curve:
    """Return the learning curve of an arm at its best rate, over the seeds that it was tested on."""
    tested = [
        record
        for record in records
        if (record.task, record.arm, record.phase) == (arm.task, arm.arm, "test")
        and (record.learning_rate, record.parameters) == (arm.learning_rate, arm.trainable_params)
        and record.error is None
    ]
    points: dict[int, dict[int, float]] = {}
    for record in tested:
        for step, accuracy in record.curve:
            points.setdefault(step, {})[record.seed] = accuracy
    return {step: mean_interval(list(by_seed.values()), 0.95) for step, by_seed in sorted(points.items())}


def draw(result: Ablation, records: Sequence[Record]) -> Figure:
    """Return a panel a task, with the arms of its primary comparisons."""
    figure = Figure(figsize=(4.2 * max(1, len(result.bases)), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, max(1, len(result.bases)), squeeze=False, sharey=True)[0]
    primary = [c for c in result.comparisons if c.test != "descriptive"]
    names = list(dict.fromkeys(arm for c in primary for arm in (c.a, c.b)))
    colors = dict(zip(names, sns.color_palette("colorblind"), strict=False))
    for panel, base in zip(axes, result.bases, strict=False):
        for arm in result.arms:
            found = curve(arm, records) if arm.task == base.task and arm.arm in colors else {}
            if found:
                steps = list(found)
                panel.plot(steps, [found[s].value for s in steps], color=colors[arm.arm], label=arm.arm)
                low, high = [found[s].low for s in steps], [found[s].high for s in steps]
                panel.fill_between(steps, low, high, color=colors[arm.arm], alpha=0.2, linewidth=0)
        panel.axhline(base.best, linestyle="--", color="0.5", linewidth=0.8)
        panel.set_title(base.task)
        panel.set_xlabel("step")
    axes[0].set_ylabel("held-out accuracy, T=1")
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of an ablation, with ablation.json and results.jsonl")
    parser.add_argument("-o", "--output", type=Path, required=True, help="picture to draw")
    arguments = parser.parse_args()
    draw(load(arguments.folder), read(arguments.folder / LEDGER)).savefig(arguments.output, dpi=110)


if __name__ == "__main__":
    main()
