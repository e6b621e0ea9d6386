"""Writes the tables of an ablation into a page, and draws its figure.

    python reports/ablation.py runs/lora-advice -o docs/results/lora-advice.md --figure docs/figures/lora-advice.png

Reads `ablation.json` and judges nothing. In a page that exists, what stands between the two markers is replaced; the
words around it are left alone.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from grpodyn.ablation.ledger import LEDGER
from grpodyn.ablation.results import FILE, Ablation, ArmResult, load
from grpodyn.ablation.target import SOURCES
from grpodyn.attribution.result import FILE as PATCH_TEST
from grpodyn.reporting.published import interval, number, put
from grpodyn.trace import strict_json


def page(result: Ablation) -> str:
    """Return the tables of a result as Markdown."""
    parts = [f"Verdict: **{result.verdict}**. {result.trained} trainings and base measurements; protocol SHA-256"]
    parts[0] += f" `{result.protocol_sha256[:16]}`."
    for base in result.bases:
        arms = [arm for arm in result.arms if arm.task == base.task]
        parts += [
            f"### {base.task}",
            f"The untouched base: {base.accuracy:.3f} at T=1, {base.greedy:.3f} greedily, {base.best:.3f} at "
            f"T={base.best_temperature:g} (its best on the tuning split).",
            _arms(arms),
        ]
    parts += ["### Who wins where", _who_wins(result)] * (len(result.bases) > 1)
    parts += ["### Comparisons", _comparisons(result)]
    if result.notes:
        parts += ["### Notes", "\n".join(f"- {note}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def _arms(arms: Sequence[ArmResult]) -> str:
    head = (
        "| arm | parameters | learning rate | seeds | accuracy | greedy | gain kept | skill gain | steps | KL |\n"
        "|---|--:|--:|--:|---|--:|---|--:|--:|--:|"
    )
    rows = [
        f"| {arm.arm} | {arm.trainable_params:,} | {number(arm.learning_rate, '.1e')}{'*' if arm.at_edge else ''} "
        f"| {len(arm.seeds)} | {interval(arm.accuracy)} | {number(arm.greedy.value)} "
        f"| {interval(arm.gain_kept, '.0%')} | {number(arm.skill_gain.value, '+.3f')} | {_steps(arm)} "
        f"| {number(arm.kl.value, '.2f')} |"
        for arm in arms
    ]
    return "\n".join([head, *rows])


SAME_BUDGET = 1.06
"""Arms of up to this multiple of the tested adapter's parameters are listed side by side."""


def _who_wins(result: Ablation) -> str:
    """Return the share of all-linear's gain that each arm of the tested adapter's size keeps, a column a task."""
    tasks = [base.task for base in result.bases]
    sizes = {task: arm.trainable_params for task in tasks if (arm := result.arm(result.candidate, task))}
    rows: dict[str, dict[str, ArmResult]] = {}
    for arm in result.arms:
        if arm.lora is not None and arm.trainable_params <= SAME_BUDGET * sizes.get(arm.task, 0):
            rows.setdefault(arm.arm, {})[arm.task] = arm
    kept = {name: {task: of[task].gain_kept.value for task in tasks if task in of} for name, of in rows.items()}
    best = {
        task: max((k[task] for k in kept.values() if not math.isnan(k.get(task, math.nan))), default=math.nan)
        for task in tasks
    }

    def mean(name: str) -> float:
        return sum(kept[name].values()) / len(tasks) if len(kept[name]) == len(tasks) else math.nan

    def cell(name: str, task: str) -> str:
        value = kept[name].get(task, math.nan)
        if math.isnan(value):
            return "–"
        shown = f"**{value:.1%}**" if value == best[task] else f"{value:.1%}"
        steps = _steps(rows[name][task])
        return f"{shown}, {'never' if steps.startswith('0 of') else steps}"

    order = sorted(rows, key=lambda name: (math.isnan(mean(name)), -mean(name)))
    head = [f"| arm | {' | '.join(tasks)} | mean |", f"|---|{'--:|' * (len(tasks) + 1)}"]
    lines = [f"| {name} | {' | '.join(cell(name, t) for t in tasks)} | {number(mean(name), '.1%')} |" for name in order]
    about = (
        "Adapters of the tested one's size, best first: share of all-linear's gain that is kept (the best of a task in "
        "bold), then steps to the level, or how many seeds reach it. The seeds of each arm are in the tables above."
    )
    return "\n".join([about, "", *head, *lines])


def _comparisons(result: Ablation) -> str:
    head = (
        "| task | a | b | test | seeds | a − b | p | p, Holm | could have seen | outcome |\n"
        "|---|---|---|---|--:|---|--:|--:|--:|---|"
    )
    rows = []
    for c in result.comparisons:
        described = c.test == "descriptive"
        test = "–" if described else f"not worse by {c.margin:.3f}" if c.test == "not_worse" else "better"
        rows.append(
            f"| {c.task} | {c.a} | {c.b} | {test} | {c.seeds} | {interval(c.difference, '+.3f')} "
            f"| {'–' if described else number(c.p, '.2g')} | {'–' if described else number(c.p_holm, '.2g')} "
            f"| {number(c.smallest_seen)} | {'–' if described else c.outcome} |"
        )
    return "\n".join([head, *rows])


def draw(result: Ablation) -> Figure:
    """Return the accuracies of all arms with their intervals, a panel a task; dashed is the base at its best."""
    figure = Figure(figsize=(4.2 * max(1, len(result.bases)), 0.32 * _most_arms(result) + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    colors = sns.color_palette("colorblind")
    axes = figure.subplots(1, max(1, len(result.bases)), squeeze=False)[0]
    for panel, base in zip(axes, result.bases, strict=False):
        arms = [arm for arm in result.arms if arm.task == base.task and not math.isnan(arm.accuracy.value)]
        for row, arm in enumerate(reversed(arms)):
            color = colors[3] if arm.arm == result.candidate else colors[0]
            panel.plot(arm.accuracy.value, row, "o", color=color)
            if arm.accuracy.known:
                panel.plot([arm.accuracy.low, arm.accuracy.high], [row, row], color=color)
        panel.set_yticks(range(len(arms)), [arm.arm for arm in reversed(arms)])
        panel.axvline(base.best, linestyle="--", color="0.5", linewidth=0.8)
        panel.set_title(base.task)
        panel.set_xlabel("held-out accuracy, T=1")
    return figure


def _most_arms(result: Ablation) -> int:
    tasks = [arm.task for arm in result.arms]
    return max((tasks.count(task) for task in set(tasks)), default=1)


def _steps(arm: ArmResult) -> str:
    if not arm.seeds:
        return "–"
    return (
        number(arm.steps_to_level.value, ".0f")
        if arm.reached == len(arm.seeds)
        else f"{arm.reached} of {len(arm.seeds)}"
    )


def keep(folder: Path, into: Path) -> None:
    """Copy what the page rests on: the result, the ledger, and the patch test of each source run.

    Of a patch test, where its models lay is cut to their names: the folders are of the machine that trained them.
    """
    into.mkdir(parents=True, exist_ok=True)
    for name in (FILE, LEDGER):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, into / name)
    for tested in sorted((folder / SOURCES).glob(f"*/{PATCH_TEST}")):
        content = strict_json.read(tested)
        for model in ("base", "final"):
            content["sources"][model]["place"] = Path(content["sources"][model]["place"]).name
        target = into / f"patch-test-{tested.parent.name}.json"
        strict_json.replace_file(target, (strict_json.dumps(content, indent=1) + "\n").encode())


def main() -> None:
    """Write page and figure, and keep the results that they show beside the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of an ablation, with ablation.json")
    parser.add_argument("-o", "--output", type=Path, required=True, help="page to write the tables into")
    parser.add_argument("--figure", type=Path, help="picture to draw")
    parser.add_argument(
        "--keep", type=Path, help="folder that gets the result, the ledger and the sources' patch tests"
    )
    arguments = parser.parse_args()
    result = load(arguments.folder)
    put(arguments.output, page(result))
    if arguments.figure is not None:
        draw(result).savefig(arguments.figure, dpi=110)
    if arguments.keep is not None:
        keep(arguments.folder, arguments.keep)


if __name__ == "__main__":
    main()
