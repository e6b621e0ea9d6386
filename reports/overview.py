"""Draws one or two runs in one picture: reward, where the model moved, in how many directions.

    python reports/overview.py runs/full runs/lora -o overview.png

Reads runs through the public API only and computes nothing beyond what is drawn. The first run gives the three lower
panels; every run gives a reward curve and its held-out accuracy.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from grpodyn import open_run
from grpodyn.errors import MissingDataError
from grpodyn.evaluation.records import ACCURACY, GREEDY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpodyn import Run

BLOCK_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
HELDOUT_MARKERS = {ACCURACY: "o", GREEDY: "^"}


def draw(runs: list[Run]) -> Figure:
    """Return the four-panel figure of `runs`."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    reward, layers, modules, ranks = figure.subplots(2, 2).flat
    _reward(reward, runs)
    first = runs[0]
    _layer_displacement(layers, first)
    _module_displacement(modules, first)
    _effective_rank(ranks, first)
    return figure


def _or_say(axes: Axes, draw_panel: Any) -> None:
    """Draw a panel, or write in its place what the run does not hold."""
    try:
        draw_panel()
    except MissingDataError as error:
        axes.text(0.5, 0.5, str(error), ha="center", va="center", wrap=True, transform=axes.transAxes, fontsize=8)
        axes.set_axis_off()


def _reward(axes: Axes, runs: list[Run]) -> None:
    def panel() -> None:
        for run, color in zip(runs, sns.color_palette("colorblind"), strict=False):
            series = run.metric("reward")
            steps, values = series["step"].to_numpy(), series.to_numpy()
            axes.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
            label = f"{run.path.name} ({'LoRA' if run.manifest.lora else 'full fine-tuning'})"
            axes.plot(steps, _running_mean(values, 15), color=color, label=label)
            for metric, marker in HELDOUT_MARKERS.items():
                _heldout(axes, run, metric, marker, color)
        for metric, marker in HELDOUT_MARKERS.items():
            axes.scatter([], [], marker=marker, color="white", edgecolor="black", label=metric.replace("_", " "))
        axes.set(xlabel="optimizer step", ylabel="reward, accuracy", title="Training reward and held-out accuracy")
        axes.set_ylim(-0.05, 1.08)
        axes.legend(fontsize=8, loc="lower right")

    _or_say(axes, panel)


def _heldout(axes: Axes, run: Run, metric: str, marker: str, color: Any) -> None:
    table = run.evaluations
    if "metric" in table.coords and metric in table["metric"].values:
        values = table["values"].sel(metric=metric)
        axes.scatter(table["step"], values, marker=marker, s=45, color=color, zorder=3, edgecolor="black")


def _running_mean(values: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """Return the centred running mean; the window shrinks at the ends."""
    total = np.concatenate([[0.0], np.nancumsum(values)])
    index = np.arange(values.size)
    low, high = np.maximum(index - width // 2, 0), np.minimum(index + width // 2 + 1, values.size)
    mean: np.ndarray[Any, Any] = (total[high] - total[low]) / (high - low)
    return mean


def _layer_displacement(axes: Axes, run: Run) -> None:
    def panel() -> None:
        run.require("layer_delta")
        table = run.layers["layer_delta"].dropna("row", how="all")
        image = axes.pcolormesh(table["step"], table["layer"], table.to_numpy().T, cmap="viridis", shading="nearest")
        axes.figure.colorbar(image, ax=axes, label="‖W_t − W_0‖ / ‖W_0‖")
        axes.set(xlabel="optimizer step", ylabel="layer", title=f"Net displacement by layer ({run.path.name})")

    _or_say(axes, panel)


def _last_by_tensor(run: Run, group: str, name: str) -> dict[tuple[int, str], float]:
    run.require(name)
    table = getattr(run, group)[name].dropna("row", how="all").isel(row=-1)
    keys = zip(table["layer"].values, table["module"].values, table["kind"].values, table.to_numpy(), strict=True)
    return {(int(layer), str(module)): float(v) for layer, module, kind, v in keys if kind == "linear" and layer >= 0}


def _module_displacement(axes: Axes, run: Run) -> None:
    def panel() -> None:
        last = _last_by_tensor(run, "tensors", "delta_norm")
        layers = sorted({layer for layer, _ in last})
        modules = [m for m in BLOCK_MODULES if any(key[1] == m for key in last)] or sorted({m for _, m in last})
        grid = np.array([[last.get((layer, module), np.nan) for module in modules] for layer in layers])
        sns.heatmap(grid, ax=axes, cmap="viridis", annot=True, fmt=".2f", annot_kws={"fontsize": 7},
                    xticklabels=modules, yticklabels=layers, cbar_kws={"label": "‖W_T − W_0‖"})  # fmt: skip
        axes.invert_yaxis()
        axes.tick_params(axis="x", rotation=30)
        axes.set(ylabel="layer", title="Where the model moved (movement, not contribution)")

    _or_say(axes, panel)


def _effective_rank(axes: Axes, run: Run) -> None:
    def panel() -> None:
        run.require("effective_rank")
        table = run.spectra["effective_rank"]
        for module, color in zip(BLOCK_MODULES, sns.color_palette("colorblind"), strict=False):
            chosen = table.isel(tensor=(table["module"].values == module) & (table["kind"].values == "linear"))
            if chosen.sizes["tensor"]:
                axes.plot(table["step"], chosen.mean("tensor", skipna=True), marker=".", color=color, label=module)
        axes.set(xlabel="optimizer step", ylabel="effective rank of W_t − W_0", title="In how many directions")
        axes.legend(fontsize=8, ncols=2)

    _or_say(axes, panel)


def main() -> None:
    """Parse the command line and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("overview.png"))
    arguments = parser.parse_args()
    draw([open_run(path) for path in arguments.runs]).savefig(arguments.output, dpi=130)


if __name__ == "__main__":
    main()
