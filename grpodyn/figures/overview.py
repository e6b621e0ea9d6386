"""One picture of a run or two: reward, where the model moved, in how many directions, what became of the groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grpodyn.figures import layers, ranks
from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, colour, dash, is_crowded, styled
from grpodyn.figures.text import label, listed, number, per_cent, steps_axis, undefined

MOST_RUNS = 5


@styled
def overview(
    courses: Sequence[Any], dynamics: Any = None, rank_course: Any = None, outcomes: Any = None, width: Width = "page"
) -> Drawn:
    """Draw four panels: rewards of all runs, and of the first one layers, ranks and groups.

    Args:
        courses: a `RewardCourse` a run; the other results are of the first of them.
        dynamics: `LayerDynamics`, or None where the run lacks it; then its panel says so.
        rank_course: `RankCourse`, or None.
        outcomes: `GroupOutcomes`, or None.
        width: of the paper.
    """
    figure, axes = sheet(width, 5.2, 2, 2) if width == "page" else sheet(width, 9.2, 4, 1)
    _rewards(axes[0], courses[:MOST_RUNS])
    first = courses[0].run if courses else ""
    if dynamics is not None and dynamics.displacement is not None:
        layers.panel(axes[1], dynamics.displacement, "‖Wₜ − W₀‖ / ‖W₀‖")
        axes[1].set_title(f"displacement by layer, {label(first, 20)}")
    else:
        undefined(axes[1], "the displacement of layers was not recorded")
    if rank_course is not None:
        ranks.panel(axes[2], rank_course, "effective_rank")
        axes[2].set_title("effective rank of Wₜ − W₀")
        axes[2].set_ylim(0, 1.35 * axes[2].get_ylim()[1])
        axes[2].legend(ncols=3, loc="upper center", fontsize=6)
    else:
        undefined(axes[2], "no ranks were recorded")
    if outcomes is not None:
        _groups(axes[3], outcomes)
    else:
        undefined(axes[3], "no rollouts were recorded")
    return Drawn(figure, "overview", "The runs at a glance", _describe(courses, dynamics, rank_course, outcomes))


def _rewards(axes: Any, courses: Sequence[Any]) -> None:
    for place, course in enumerate(courses):
        paint = colour(place)
        axes.plot(
            course.steps, course.rewards, linestyle="none", marker=".", markersize=2, color=paint, alpha=0.35,
            rasterized=is_crowded(len(course.steps)),
        )  # fmt: skip
        if course.fitted is not None:
            axes.plot(
                course.fitted.steps,
                course.fitted.value,
                color=paint,
                linestyle=dash(place),
                label=label(course.run, 24),
            )
        known = [(one.step, one.accuracy) for one in course.held_out if not math.isnan(one.accuracy)]
        if known:
            steps, values = zip(*known, strict=True)
            axes.plot(
                steps, values, linestyle="none", marker="o", markersize=4, color=paint, markeredgecolor=INK,
                markeredgewidth=0.5,
            )  # fmt: skip
    axes.set_title("reward (dots), fit (line), held-out accuracy (circles)")
    steps_axis(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best")


def _groups(axes: Any, found: Any) -> None:
    curves = [(found.dead, "no spread", INK)]
    if found.outcome is not None:
        curves += [(found.all_right, "all right", colour(2)), (found.all_wrong, "all wrong", colour(1))]
    for place, (values, name, paint) in enumerate(curves):
        axes.plot(found.last_step, values, color=paint, linestyle=dash(place), label=name)
    axes.set_ylim(-0.02, 1.02)
    axes.axhline(0, color=FAINT, linewidth=0.6)
    per_cent(axes.yaxis)
    axes.set_title(f"groups of {found.g}")
    steps_axis(axes)
    axes.legend()


def _describe(courses: Sequence[Any], dynamics: Any, rank_course: Any, outcomes: Any) -> str:
    told = [
        f"{course.run} from {number(course.rewards[0])} to {number(course.rewards[-1])} in {course.steps[-1]:.0f} steps"
        for course in courses[:MOST_RUNS]
        if course.steps
    ]
    said = [f"Rewards: {listed(told, MOST_RUNS) or 'none was logged'}."]
    if dynamics is not None and dynamics.displacement is not None:
        said.append(layers.describe(dynamics.displacement, "Displacement by layer", dynamics.run))
    if rank_course is not None:
        said.append(f"Effective rank of {len(rank_course.ranks.get('effective_rank', ()))} module types over steps.")
    if outcomes is not None:
        said.append(f"Groups without spread at the end: {number(100 * outcomes.dead[-1], '.0f')} %.")
    return " ".join(said)
