"""`grpodyn compare`: runs side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import figure, literal

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = 4


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run directories; the first is the reference.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="KEY", help="Compare arms by this instead; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Set runs side by side: where their configs differ, what each gained and cost, and where arms of seeds part.

    Runs that differ by seed alone are one arm, and their spread is its noise.

    Example: grpodyn compare runs/full-s0 runs/full-s1 runs/lora-s0 runs/lora-s1
    """
    from rich.console import Console

    from grpodyn import registry
    from grpodyn.cli.lookup import find_runs
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    opened = [open_run(path) for path in find_runs(runs)]
    result = registry.analysis("run_comparison").run(opened[0], others=opened[1:], metrics=metrics or ())
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
        return
    _show(Console(), result)


def _show(console: Console, result: Any) -> None:
    for start in range(0, len(result.runs), _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        if result.differences:
            console.print(_differences(result, columns))
        console.print(_results(result, columns))
    if result.metrics.comparisons:
        console.print(_parted(result))
    for warning in (*result.warnings, *result.layers.notes):
        console.print(literal(f"• {warning}"))


def _table(result: Any, columns: slice, title: str) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("")
    for run in result.runs[columns]:
        table.add_column(literal(Path(run.path).name), justify="right", overflow="fold")
    return table


def _differences(result: Any, columns: slice) -> Any:
    table = _table(result, columns, "where the configs differ")
    for difference in result.differences:
        table.add_row(literal(difference.key), *(literal(_short(value)) for value in difference.values[columns]))
    return table


def _results(result: Any, columns: slice) -> Any:
    table = _table(result, columns, "held-out accuracy and cost")
    runs = result.runs[columns]
    rows: list[tuple[str, list[str]]] = [
        ("status", [run.status for run in runs]),
        ("trains", [run.trains for run in runs]),
        (
            "trainable parameters",
            ["–" if run.trainable_params is None else f"{run.trainable_params:,}" for run in runs],
        ),
        ("steps", [str(run.steps) for run in runs]),
        ("seconds of training", [figure(run.seconds, ".0f") for run in runs]),
        ("base, T=1", [figure(run.base.accuracy) for run in runs]),
        ("trained, T=1", [figure(run.trained.accuracy) for run in runs]),
        ("gain", [figure(run.gain, "+.3f") for run in runs]),
        ("gain kept", [figure(run.gain_kept, ".0%") for run in runs]),
        ("base, greedy", [figure(run.base.greedy) for run in runs]),
        ("trained, greedy", [figure(run.trained.greedy) for run in runs]),
        ("base, best temperature", [_best(run.base) for run in runs]),
        ("trained, best temperature", [_best(run.trained) for run in runs]),
    ]
    for label, values in rows:
        table.add_row(label, *map(literal, values))
    return table


def _parted(result: Any) -> Any:
    from rich.table import Table

    first = result.arms[0]
    table = Table(title=literal(f"where arms left {first.label} (n={len(first.runs)})"), title_justify="left")
    for name in ("arm", "metric", "there", "here", "difference", "verdict"):
        table.add_column(name, justify="left" if name in ("arm", "metric", "verdict") else "right", overflow="fold")
    sizes = {arm.label: len(arm.runs) for arm in result.arms}
    shown: set[str] = set()
    for one in sorted(result.metrics.comparisons, key=lambda one: list(sizes).index(one.arm)):
        difference = one.separation.difference
        half = "" if not difference.known else f" ± {(difference.high - difference.low) / 2:.2g}"
        since = "" if one.since is None else f", since step {one.since}"
        table.add_row(
            "" if one.arm in shown else literal(f"{one.arm} (n={sizes[one.arm]})"),
            literal(one.metric),
            figure(one.reference_end.value, ".4g"),
            figure(one.arm_end.value, ".4g"),
            f"{figure(difference.value, '+.3g')}{half}",
            f"{one.separation.short}{since}",
        )
        shown.add(one.arm)
    return table


def _best(result: Any) -> str:
    if math.isnan(result.best_temperature_accuracy):
        return "–"
    at = "" if math.isnan(result.best_temperature) else f" (T={result.best_temperature:g})"
    return f"{result.best_temperature_accuracy:.3f}{at}"


def _short(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return "–" if value is None else str(value)
