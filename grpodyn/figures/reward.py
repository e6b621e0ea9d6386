"""The reward with its fit, its phases and its forecast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, INK, colour, is_crowded, styled
from grpodyn.figures.text import label, number, steps_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS, _FIT, _HELD_OUT, _GREEDY = colour(5), colour(0), colour(1), colour(2)
_WORDS = {
    "rising": "still rising",
    "plateau": "on a plateau",
    "schedule_limited": "held by the learning rate's schedule",
    "falling": "falling",
    "no_trend": "without a trend",
    "cannot_tell_yet": "where it goes cannot be told yet",
    "fault": "broken off by a fault",
}


@styled
def reward(course: Any, width: Width = "page") -> Drawn:
    """Draw a `RewardCourse`: points, fit with the interval of its mean, phases, forecast, held-out accuracy.

    Args:
        course: what the analysis `reward_course` returns.
        width: of the paper.
    """
    figure, (axes,) = sheet(width, 2.9)
    panel(axes, course)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3 if width == "page" else 2)
    return Drawn(figure, "reward", f"{label(course.metric)} over steps, {label(course.run)}", describe(course))


def panel(axes: Axes, course: Any) -> None:
    """Draw the course into axes."""
    name = "reward of a step" if course.logged_per_point == 1 else f"mean of {course.logged_per_point} rewards"
    axes.plot(
        course.steps,
        course.rewards,
        linestyle="none",
        marker=".",
        markersize=3,
        color=_POINTS,
        alpha=0.6,
        label=name,
        rasterized=is_crowded(len(course.steps)),
    )
    if course.fitted is not None:
        _curve(axes, course.fitted, "-", f"fit, {course.fitted.level:.0%} interval of the mean".replace("%", " %"))
    if course.ahead is not None:
        _curve(axes, course.ahead, "--", "forecast")
    _held_out(axes, course)
    _phases(axes, course.forecast.phases)
    for step in course.restarts:
        axes.axvline(step, color=FAINT, linewidth=0.8, linestyle=":", label="_restart")
    steps_axis(axes)
    axes.set_ylabel(label(course.metric))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))


def _curve(axes: Axes, curve: Any, style: str, name: str) -> None:
    axes.fill_between(curve.steps, curve.low, curve.high, color=_FIT, alpha=0.2, linewidth=0)
    axes.plot(curve.steps, curve.value, color=_FIT, linestyle=style, label=name)


def _held_out(axes: Axes, course: Any) -> None:
    for field, name, sign, paint in (
        ("accuracy", "held out, T=1", "o", _HELD_OUT),
        ("greedy", "held out, greedy", "^", _GREEDY),
    ):
        known = [(one.step, getattr(one, field)) for one in course.held_out]
        known = [pair for pair in known if not math.isnan(pair[1])]
        if known:
            steps, values = zip(*known, strict=True)
            axes.plot(
                steps, values, linestyle="none", marker=sign, markersize=5, color=paint, markeredgecolor=INK,
                markeredgewidth=0.5, label=name, zorder=3,
            )  # fmt: skip


def _phases(axes: Axes, phases: Any) -> None:
    """Mark where the rapid phase and the plateau begin, each with its interval."""
    for one, name in ((phases.rapid, "rapid"), (phases.plateau, "plateau")):
        if one is None:
            continue
        axes.axvspan(one.low, one.high, color=FAINT, alpha=0.25, linewidth=0)
        axes.axvline(one.value, color=FAINT, linewidth=0.8)
        axes.annotate(
            f"{name}\nfrom {one.value:.0f}",
            (one.value, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=7,
            color=INK,
        )


def describe(course: Any) -> str:
    """Return the course in words."""
    if not course.steps:
        return f"{course.metric} of {course.run}: nothing was logged."
    found = course.forecast
    said = [
        f"{course.metric} of {course.run}, steps {course.steps[0]:.0f} to {course.steps[-1]:.0f}: "
        f"{number(course.rewards[0])} at the first point, {number(course.rewards[-1])} at the last; "
        f"{_WORDS.get(found.verdict, found.verdict)}."
    ]
    if found.model is not None and found.level is not None:
        said.append(f"The {found.model} curve is at {_within(found.level)} now.")
    if found.phases.rapid is not None:
        said.append(f"The rapid phase begins at step {found.phases.rapid.value:.0f}.")
    if found.phases.plateau is not None:
        said.append(f"The plateau begins at step {_within(found.phases.plateau, '.0f')}.")
    if found.final is not None and course.ahead is not None:
        said.append(f"At the planned end, step {found.max_steps}, {_within(found.final)} is expected.")
    held_out = [one for one in course.held_out if not math.isnan(one.accuracy)]
    if held_out:
        said.append(
            f"Held-out accuracy: {number(held_out[0].accuracy)} at step {held_out[0].step}, "
            f"{number(held_out[-1].accuracy)} at step {held_out[-1].step}."
        )
    return " ".join(said)


def _within(one: Any, form: str = ".3g") -> str:
    level = f"{100 * one.level:.0f} %"
    return f"{number(one.value, form)} ({level} interval {number(one.low, form)} to {number(one.high, form)})"
