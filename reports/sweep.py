"""Writes what a sweep has found into a page, and draws its figure.

    python reports/sweep.py runs/kl -o docs/results/kl.md --figure docs/figures/kl.png --keep docs/results/kl.json

Reads `results.json`, or a copy of one, and computes nothing; claims that were judged before their opposites were too
are judged anew from what the runs came to. In a page that exists, what stands between the two markers is replaced; the
words around it are left alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from grpodyn.evaluation.records import GREEDY
from grpodyn.reporting.published import interval, number, put
from grpodyn.statistics import Interval
from grpodyn.studies.conclude import judge_again
from grpodyn.studies.measures import JUDGED, RATIO
from grpodyn.studies.results import RESULTS, ArmResult, SweepResult
from grpodyn.trace import strict_json


def read(path: Path) -> SweepResult:
    """Return the result that a file holds; JSON's null is an unknown number.

    Claims of a file from before their opposites were tested are judged anew.

    Raises:
        OSError, ValueError: it is not there, or not one.
    """
    content = strict_json.read(path)
    judged_both_ways = all("opposite_p" in one for one in content["contrasts"])
    for arm in content["arms"]:
        arm["values"] = {metric: _known(value) for metric, value in arm["values"].items()}
    for one in [*content["differences"], *content["contrasts"]]:
        one["difference"] = _known(one["difference"])
        one.update({key: math.nan for key in ("p", "p_holm", "equal_p") if key in one and one[key] is None})
        if one.get("equal_difference") is not None:
            one["equal_difference"] = _known(one["equal_difference"])
    for one in content["contrasts"]:
        one.update({key: math.nan for key in ("opposite_p", "opposite_p_holm") if one.get(key) is None})
    for run in content["runs"]:
        run["values"] = {key: math.nan if value is None else value for key, value in run["values"].items()}
    result = TypeAdapter(SweepResult).validate_python(content)
    return result if judged_both_ways else judge_again(result)


def _known(value: dict[str, float | None]) -> dict[str, float]:
    return {key: math.nan if number is None else number for key, number in value.items()}


def metrics(result: SweepResult) -> list[str]:
    """Return what the tables show: accuracy, and everything that a claim names, or without claims what texts lost.

    Where nothing is held out, the reward stands for accuracy.
    """
    measured = {metric for arm in result.arms for metric in arm.values}
    named = [metric for metric in JUDGED if metric in measured][:1]
    if not result.contrasts:
        ratios = {one.metric for one in result.differences if one.metric.startswith(RATIO) and "@" not in one.metric}
        named += [GREEDY, *sorted(ratios)]
    for one in result.contrasts:
        named += [one.metric] + ([one.equal] if one.equal else [])
    return [metric for metric in dict.fromkeys(named) if metric in measured]


def page(result: SweepResult) -> str:
    """Return the tables of a result as Markdown."""
    done = [run for run in result.runs if run.state == "done"]
    minutes = sum(run.seconds for run in done) / 60
    parts = [
        f"{len(done)} of {len(result.runs)} runs, {minutes:.0f} minutes of training; configs SHA-256 "
        f"`{result.configs_sha256[:16]}`; "
        + ", ".join(f"{name} {result.versions[name]}" for name in ("torch", "trl") if name in result.versions)
        + ".",
        "### Arms",
        _arms(result.arms, metrics(result)),
    ]
    if result.contrasts:
        parts += ["### Claims", _claims(result)]
    else:
        parts += [f"### Beside {result.reference}", _differences(result)]
    if result.notes:
        parts += ["\n".join(f"- {note}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def _arms(arms: Sequence[ArmResult], shown: Sequence[str]) -> str:
    head = "| arm | seeds | " + " | ".join(f"`{metric}`" for metric in shown) + " |\n|---|--:|" + "---|" * len(shown)
    unknown = Interval(math.nan, math.nan, math.nan, 0.95)
    rows = [
        f"| {arm.arm} | {len(arm.seeds)} | "
        + " | ".join(
            interval(arm.values.get(metric, unknown))
            + (f" ({arm.counts[metric]} runs)" if arm.counts.get(metric, len(arm.seeds)) < len(arm.seeds) else "")
            for metric in shown
        )
        + " |"
        for arm in arms
    ]
    return "\n".join([head, *rows])


def _claims(result: SweepResult) -> str:
    head = (
        "| a | b | claim | a beside b | p, one-sided | p, Holm | p of the opposite, Holm | accuracy, a − b "
        "| outcome |\n"
        "|---|---|---|---|--:|--:|--:|---|---|"
    )
    rows = [
        f"| {one.a} | {one.b} | {one.better} `{one.metric}` | {'×' if one.scale == 'factor' else ''}"
        f"{interval(one.difference)} | {number(one.p, '.2g')} | {number(one.p_holm, '.2g')} "
        f"| {number(one.opposite_p_holm, '.2g')} "
        f"| {'–' if one.equal_difference is None else interval(one.equal_difference, '+.3f')} | {one.outcome} |"
        for one in result.contrasts
    ]
    return "\n".join([head, *rows])


def _differences(result: SweepResult) -> str:
    shown = metrics(result)
    rows = [
        f"| {one.arm} | `{one.metric}` | {'×' if one.scale == 'factor' else ''}"
        f"{interval(one.difference, '.3f' if one.scale == 'factor' else '+.3f')} | {number(one.p, '.2g')} |"
        for one in result.differences
        if one.metric in shown
    ]
    read = "\n".join(f"- {line}" for line in result.reading)
    return "\n".join(
        ["| arm | metric | difference | p, two-sided, not corrected |", "|---|---|---|--:|", *rows, "", read]
    )


def draw(result: SweepResult) -> Figure:
    """Return a panel a metric: every run as a dot, and each arm's mean with its interval."""
    shown = metrics(result)
    figure = Figure(figsize=(3.6 * len(shown), 0.45 * len(result.arms) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    colors = sns.color_palette("colorblind")
    for panel, metric in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for row, arm in enumerate(reversed(result.arms)):
            runs = [run.values.get(metric, math.nan) for run in result.runs if run.arm == arm.arm]
            panel.plot(runs, [row] * len(runs), "o", color="0.7", markersize=3)
            found = arm.values.get(metric)
            if found is None or math.isnan(found.value):
                continue
            panel.plot(found.value, row, "o", color=colors[0])
            if math.isfinite(found.low) and math.isfinite(found.high):
                panel.plot([found.low, found.high], [row, row], color=colors[0])
        panel.set_yticks(range(len(result.arms)), [arm.arm for arm in reversed(result.arms)])
        panel.set_ylim(-0.5, len(result.arms) - 0.5)
        panel.set_title(metric.replace("@", "\nat ").replace("=", " = "), fontsize=9)
    return figure


def main() -> None:
    """Write page and figure, and keep the result that they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help=f"folder of a sweep, with {RESULTS}, or such a file")
    parser.add_argument("-o", "--output", type=Path, required=True, help="page to write the tables into")
    parser.add_argument("--figure", type=Path, help="picture to draw")
    parser.add_argument("--keep", type=Path, help="where to keep the result that is shown")
    arguments = parser.parse_args()
    source = arguments.source / RESULTS if arguments.source.is_dir() else arguments.source
    result = read(source)
    if not metrics(result):
        parser.error(f"{arguments.source}: no run is done yet, so there is nothing to show")
    put(arguments.output, page(result))
    if arguments.figure is not None:
        draw(result).savefig(arguments.figure, dpi=110)
    if arguments.keep is not None:
        result.write(arguments.keep.parent, arguments.keep.name)


if __name__ == "__main__":
    main()
