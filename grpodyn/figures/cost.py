"""What recording cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, colour, styled
from grpodyn.figures.text import label, number, per_cent, steps_axis


@styled
def recorder_cost(found: Any, width: Width = "page") -> Drawn:
    """Draw the recorder's CPU seconds over the seconds of each step, and their ratio over the whole run as a line.

    Args:
        found: what the analysis `recorder_cost` returns.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.2)
    step = np.array(found.step)
    ratio = np.divide(found.recorder, step, out=np.full(step.shape, np.nan), where=step > 0)
    axes.plot(found.steps, ratio, color=colour(0), marker=".", markersize=3, linewidth=0.8, label="each logged step")
    if np.isfinite(found.share):
        axes.axhline(found.share, color=FAINT, linestyle="--", linewidth=1.0, label="whole run")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("recorder / step")
    per_cent(axes.yaxis)
    steps_axis(axes)
    axes.legend(ncols=2)
    whole = number(100 * found.share, ".2g")
    alt = (
        f"CPU seconds of the recorder over the seconds of the steps of {found.run}: {number(found.total_recorder)} s "
        f"of {number(found.total_steps)} s in all, {whole} %; the highest point is "
        f"{number(100 * _most(ratio), '.2g')} %."
    )
    return Drawn(figure, "recorder_cost", f"What recording cost, {label(found.run)}", alt)


def _most(values: Any) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else float("nan")
