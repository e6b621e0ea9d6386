"""Writes into a page what predicts where training works: how much gain is lost by choosing with each predictor.

    python reports/placement.py runs/single-parts --protocol configs/studies/lora_advice_single_parts.yaml \
        --full runs/lora-advice/sources --lora runs/placement/lora --first-tenth runs/placement/first-tenth \
        -o docs/results/placement.md --json docs/results/placement.json

The criterion is an ablation with arms `layer:N` and `type:NAME`. Each folder of sources holds one recorded run a task,
under the task's name. In a page that exists, what stands between the two markers is replaced.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from grpodyn.ablation.ledger import LEDGER, read
from grpodyn.ablation.protocol import ALL_LINEAR, LAYER_PREFIX, load_study
from grpodyn.ablation.records import Record
from grpodyn.ablation.results import Ablation, ArmResult, load
from grpodyn.config.run import RunConfig
from grpodyn.lora import twin
from grpodyn.placement.gathering import BASE, Source, scores_of, seconds_of
from grpodyn.placement.judging import Choice, Predictor, by_chance, choose, gains, half_widths, leave_one_out
from grpodyn.placement.parts import FAMILIES, Family, Scores, family
from grpodyn.reporting.published import number, put
from grpodyn.trace import strict_json
from grpodyn.training import loading

_TITLES: Mapping[Family, str] = {"layers": "Which layer", "modules": "Which module type"}
CHECKPOINTS, TRACE = "two checkpoints", "trace"
LORA_RUN = "all-linear LoRA run"


def gathered(configs: Mapping[str, RunConfig], sources: Mapping[str, Path]) -> dict[str, dict[Predictor, Scores]]:
    """Return task → predictor → scores, from every source that is there."""
    found: dict[str, dict[Predictor, Scores]] = {}
    for task, config in configs.items():
        architecture = loading.load_architecture(config.model)
        model_twin = twin.build({"class": (architecture.architectures or [""])[0], "config": architecture.to_dict()})
        found[task] = {}
        for name, folder in sources.items():
            shares = (1.0,) if "first tenth" in name else (0.1, 0.25, 0.5, 1.0)
            found[task] |= scores_of(Source(name, folder / task, shares), model_twin, config)
    return found


def judged(scores: Mapping[str, Mapping[Predictor, Scores]], gained: Mapping[str, Mapping[str, float]]) -> list[Choice]:
    """Return what following each predictor comes to, on every task."""
    return [
        choice
        for task, of_task in scores.items()
        for predictor, of_parts in of_task.items()
        for choice in choose(predictor, task, of_parts, gained[task])
    ]


def costs(
    result: Ablation, records: Sequence[Record], sources: Mapping[str, Path], choices: Sequence[Choice]
) -> list[dict[str, Any]]:
    """Return what each source of advice costs, in trainings of all-linear, and after how many runs it has paid.

    Both shares are of one clock each: a source's steps over those of the recorded all-linear run, and the processor
    time of the criterion's trainings, on the best single layer over all-linear, medians over test seeds. Without a
    recorded all-linear run nothing is known.
    """
    found = []
    for task in dict.fromkeys(choice.task for choice in choices):
        whole = result.arm(ALL_LINEAR, task)
        parts = [
            a
            for a in result.arms
            if a.task == task and a.arm.startswith(LAYER_PREFIX) and not math.isnan(a.accuracy.value)
        ]
        if whole is None or not parts or LORA_RUN not in sources:
            continue
        unit, _ = seconds_of(sources[LORA_RUN] / task)
        best = max(parts, key=lambda arm: arm.accuracy.value)
        saved = 1 - _cpu_seconds(records, best) / _cpu_seconds(records, whole)
        for name, folder in sources.items():
            training, patch = seconds_of(folder / task)
            runs, tested = training / unit, (training + patch) / unit
            found.append(
                {
                    "task": task,
                    "source": name,
                    "training_seconds": training,
                    "patch_test_seconds": patch,
                    "runs_cost": runs,
                    "runs_cost_patch_tested": tested,
                    "saved_share": saved,
                    "runs_until_paid": math.ceil(runs / saved) if saved > 0 else None,
                    "runs_until_paid_patch_tested": math.ceil(tested / saved) if saved > 0 else None,
                }
            )
    return found


def _cpu_seconds(records: Sequence[Record], arm: ArmResult) -> float:
    return median(
        record.cpu_seconds
        for record in records
        if (record.task, record.arm, record.phase, record.learning_rate)
        == (arm.task, arm.arm, "test", arm.learning_rate)
    )


def page(
    gained: Mapping[str, Mapping[str, float]],
    choices: Sequence[Choice],
    cost: Sequence[Mapping[str, Any]],
    widths: Mapping[str, Mapping[str, float]],
) -> str:
    """Return the tables as Markdown; `widths` are half of the gains' intervals over seeds."""
    parts: list[str] = []
    for kind in FAMILIES:
        of_kind = [choice for choice in choices if choice.family == kind]
        if of_kind:
            parts += [f"### {_TITLES[kind]}", _criterion(kind, gained, widths), _predictors(kind, gained, of_kind)]
    parts += ["### Choosing the predictor too", _left_out(choices), "### What the advice costs", _costs(cost)]
    return "\n\n".join(parts) + "\n"


def _criterion(
    kind: Family, gained: Mapping[str, Mapping[str, float]], widths: Mapping[str, Mapping[str, float]]
) -> str:
    names = list(dict.fromkeys(part for of_task in gained.values() for part in of_task if family(part) == kind))
    head = "| trained alone: accuracy gained | " + " | ".join(names) + " |\n|---|" + "--:|" * len(names)
    rows = [f"| {task} | " + " | ".join(_gain(task, name, gained, widths) for name in names) + " |" for task in gained]
    return "\n".join([head, *rows])


def _gain(
    task: str, part: str, gained: Mapping[str, Mapping[str, float]], widths: Mapping[str, Mapping[str, float]]
) -> str:
    width = widths.get(task, {}).get(part, math.nan)
    return number(gained[task].get(part, math.nan)) + ("" if math.isnan(width) else f" ± {width:.3f}")


def _predictors(kind: Family, gained: Mapping[str, Mapping[str, float]], choices: Sequence[Choice]) -> str:
    """Return a row a predictor and source, a column for each share of the source run that it looks at."""
    tasks = list(dict.fromkeys(choice.task for choice in choices))
    shares = sorted({choice.predictor.share for choice in choices})
    head = (
        "| predictor | from | "
        + " | ".join(f"lost, {share:.0%} of the run" for share in shares)
        + " | "
        + " | ".join(f"{task}: leader, lost" for task in tasks)
        + " | rank correlation |\n|---|---|"
        + "--:|" * len(shares)
        + "---|" * len(tasks)
        + "--:|"
    )
    by: dict[tuple[str, str], dict[float, dict[str, Choice]]] = {}
    for choice in choices:
        of = by.setdefault((choice.predictor.name, choice.predictor.source), {})
        of.setdefault(choice.predictor.share, {})[choice.task] = choice

    def order(row: tuple[str, str]) -> tuple[int, float, float]:
        # What says nothing of some tasks stands last: its mean is over easier or harder ones.
        whole = by[row][max(by[row])]
        return -len(whole), _mean_lost(whole), fmean(_mean_lost(of_share) for of_share in by[row].values())

    rows = []
    for row in sorted(by, key=order):
        whole = by[row][max(by[row])]
        correlations = [choice.correlation for choice in whole.values() if not math.isnan(choice.correlation)]
        cells = [f"{_mean_lost(by[row][share]):.0%}" if share in by[row] else "–" for share in shares]
        cells += [f"{whole[task].leader}, {whole[task].lost_share:.0%}" if task in whole else "–" for task in tasks]
        cells.append(number(fmean(correlations) if correlations else math.nan, "+.2f"))
        rows.append(f"| {row[0]} | {row[1]} | {' | '.join(cells)} |")
    chance = {task: by_chance(task, gained[task]).get(kind, math.nan) for task in tasks}
    drawn = ["–"] * (len(shares) - 1) + [f"{fmean(chance.values()):.0%}", *(f"{chance[task]:.0%}" for task in tasks)]
    rows.append(f"| *a part drawn at random* | – | {' | '.join(drawn)} | – |")
    return "\n".join([head, *rows])


def _mean_lost(of_tasks: Mapping[str, Choice]) -> float:
    return fmean(choice.lost_share for choice in of_tasks.values())


def _left_out(choices: Sequence[Choice]) -> str:
    head = "| | may choose among | task left out | predictor chosen on the others | lost |\n|---|---|---|---|--:|"
    rows = []
    for label, allowed in _allowed(choices).items():
        for left in leave_one_out(allowed):
            first, *others = left.chosen
            chosen = f"{first.name}, {first.source}, {first.share:.0%}" + (f"; {len(others)} more" if others else "")
            rows.append(f"| {left.family} | {label} | {left.task} | {chosen} | {left.lost_share:.0%} |")
    return "\n".join([head, *rows])


def _allowed(choices: Sequence[Choice]) -> dict[str, list[Choice]]:
    def of(*words: str) -> list[Choice]:
        return [c for c in choices if c.predictor.source == BASE or c.predictor.source.startswith(words)]

    return {CHECKPOINTS: of(CHECKPOINTS), "traces": of(TRACE), "both": list(choices)}


def _costs(cost: Sequence[Mapping[str, Any]]) -> str:
    head = (
        "| task | source | training, s | patch test, s | in runs of all-linear | with the patch test "
        "| a run on the best layer saves | paid after | with the patch test |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    rows = [
        f"| {c['task']} | {c['source']} | {c['training_seconds']:.0f} | {c['patch_test_seconds']:.0f} "
        f"| {c['runs_cost']:.1f} | {c['runs_cost_patch_tested']:.1f} | {c['saved_share']:.0%} "
        f"| {c['runs_until_paid'] or 'never'} | {c['runs_until_paid_patch_tested'] or 'never'} |"
        for c in cost
    ]
    return "\n".join([head, *rows])


def main() -> None:
    """Write the tables, and what they show as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("criterion", type=Path, help="folder of the ablation that trained each part alone")
    parser.add_argument("--protocol", type=Path, required=True, help="its protocol, which names the tasks")
    for option, what in (
        ("--full", "full fine-tuning"),
        ("--lora", "all-linear LoRA"),
        ("--first-tenth", "first tenths"),
    ):
        parser.add_argument(option, type=Path, help=f"folder of recorded runs: {what}")
    parser.add_argument("-o", "--output", type=Path, required=True, help="page to write the tables into")
    parser.add_argument("--json", type=Path, help="file for everything that the tables show")
    arguments = parser.parse_args()
    named = {
        "full run": arguments.full,
        LORA_RUN: arguments.lora,
        "first tenth of an all-linear LoRA run": arguments.first_tenth,
    }
    sources = {name: folder for name, folder in named.items() if folder is not None}
    result = load(arguments.criterion)
    _, configs = load_study(arguments.protocol)
    gained = gains(result)
    choices = judged(gathered({task: configs[task] for task in gained}, sources), gained)
    cost = costs(result, read(arguments.criterion / LEDGER), sources, choices)
    widths = half_widths(result)
    put(arguments.output, page(gained, choices, cost, widths))
    if arguments.json is not None:
        found = {
            "gains": gained,
            "gains_half_widths": widths,
            "chance": {task: by_chance(task, of_task) for task, of_task in gained.items()},
            "choices": [asdict(choice) for choice in choices],
            "left_out": {label: [asdict(left) for left in leave_one_out(c)] for label, c in _allowed(choices).items()},
            "costs": cost,
        }
        strict_json.replace_file(
            arguments.json, (strict_json.dumps(strict_json.jsonable(found), indent=1) + "\n").encode()
        )


if __name__ == "__main__":
    main()
