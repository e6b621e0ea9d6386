"""What became of the groups, and what other group sizes would do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, colour, styled
from grpodyn.figures.text import label, listed, per_cent, plain_numbers, share, steps_axis

_RIGHT, _MIXED, _WRONG, _DEAD = colour(2), colour(5), colour(1), INK


@styled
def group_outcomes(found: Any, width: Width = "page") -> Drawn:
    """Draw the shares of groups over a run: all wrong, mixed, all right, and those without spread as a line.

    Args:
        found: what the analysis `group_outcomes` returns.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.9)
    steps = np.array(found.last_step, float)
    layers: tuple[tuple[Any, str, str, str], ...]
    if found.outcome is not None:
        layers = (
            (found.all_wrong, "all wrong", _WRONG, "//"),
            (found.mixed, "mixed", _MIXED, ""),
            (found.all_right, "all right", _RIGHT, "\\\\"),
        )
    else:
        spread = tuple(1 - value for value in found.dead)
        layers = ((found.dead, "without spread", _WRONG, "//"), (spread, "with spread", _MIXED, ""))
    below = np.zeros(len(steps))
    for values, name, paint, hatch in layers:
        above = below + np.array(values)
        axes.fill_between(
            steps, below, above, facecolor=paint, edgecolor=INK, hatch=hatch, linewidth=0.0, alpha=0.75,
            label=name,
        )  # fmt: skip
        below = above
    if found.outcome is not None:
        axes.plot(steps, found.dead, color=_DEAD, linewidth=1.4, label="no spread: no gradient")
    axes.set_ylim(0, 1)
    axes.set_xlim(steps[0], steps[-1] if len(steps) > 1 else steps[0] + 1)
    axes.set_ylabel(f"share of groups of {found.g}")
    per_cent(axes.yaxis)
    steps_axis(axes)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4 if width == "page" else 2)
    return Drawn(figure, "group_outcomes", f"Group outcomes over steps, {label(found.run)}", _outcomes(found))


@styled
def dead_groups(found: Any, width: Width = "page") -> Drawn:
    """Draw the share of dead groups against the group size, with its interval; beyond the recorded size it is hollow.

    Args:
        found: one run of what the analysis `group_size` returns (`result.runs[0]`).
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.8)
    rows = [row for row in found.groups if not math.isnan(row.dead)]
    sizes = [row.g for row in rows]
    axes.fill_between(
        sizes, [r.dead_interval.low for r in rows], [r.dead_interval.high for r in rows], color=colour(0), alpha=0.2,
        linewidth=0,
    )  # fmt: skip
    for field, name, paint, style in (
        ("dead", "dead", colour(0), "-"),
        ("all_right", "of these: all right", _RIGHT, "--"),
        ("all_wrong", "of these: all wrong", _WRONG, ":"),
    ):
        values = [getattr(row, field) for row in rows]
        if not all(math.isnan(value) for value in values):
            axes.plot(sizes, values, color=paint, linestyle=style, label=name)
    for row in rows:
        filled = row.basis == "re-sampled"
        axes.plot(
            row.g, row.dead, marker="o", markersize=5, markerfacecolor=colour(0) if filled else "none",
            markeredgecolor=colour(0), label="_size",
        )  # fmt: skip
    axes.axvline(found.recorded_g, color=FAINT, linewidth=0.9, linestyle="--")
    axes.annotate(
        f"recorded G={found.recorded_g}", (found.recorded_g, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -2),
        textcoords="offset points", va="top", fontsize=7,
    )  # fmt: skip
    if found.implied is not None:
        axes.axhline(found.implied.target, color=FAINT, linewidth=0.9, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    plain_numbers(axes.xaxis)
    axes.set_ylim(0, 1)
    axes.set_xlabel("group size G")
    axes.set_ylabel("share of groups")
    per_cent(axes.yaxis)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3 if width == "page" else 2)
    run = label(Path(found.path).name)
    return Drawn(figure, "dead_groups", f"Dead groups against group size, {run}", _sizes(found, rows))


def _outcomes(found: Any) -> str:
    span = f"Groups of {found.g} of {found.run}, {sum(found.groups)} in all, up to step {found.last_step[-1]}."
    dead = f"Without spread in the total reward: {share(found.dead[0])} at first, {share(found.dead[-1])} at the end."
    if found.outcome is None:
        return f"{span} {dead} Nothing tells right from wrong."
    ends = [
        f"{name} {share(values[0])} at first and {share(values[-1])} at the end"
        for name, values in (("all right", found.all_right), ("mixed", found.mixed), ("all wrong", found.all_wrong))
    ]
    return f"{span} By {found.outcome}: {listed(ends)}. {dead}"


def _sizes(found: Any, rows: Any) -> str:
    told = [
        f"{share(row.dead)} at G={row.g} ({share(row.dead_interval.low)} to {share(row.dead_interval.high)})"
        for row in rows
    ]
    implied = found.implied
    target = ""
    if implied is not None and implied.g is not None:
        target = f" At most {share(implied.target)} is expected from G={implied.g} on."
    return f"Share of dead groups, recorded with G={found.recorded_g}: {listed(told, 8)}.{target}"
