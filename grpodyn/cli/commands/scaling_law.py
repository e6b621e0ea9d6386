"""`grpodyn scaling-law`: one law over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import figure, literal

if TYPE_CHECKING:
    from rich.console import Console


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run directories, at least four.")],
    metric: Annotated[str | None, typer.Option("--metric", help="Key of the log or of the evaluations.")] = None,
    axis: Annotated[
        str, typer.Option("--x", help="What progress is counted in: step, prompts, completions, tokens or seconds.")
    ] = "step",
    size: Annotated[float | None, typer.Option("--size", help="Parameters of a model that was not run.")] = None,
    initial: Annotated[float | None, typer.Option("--initial", help="Its reward before training.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Fit one law in model size, initial reward and progress to several runs, and say how well it foretells each.

    Example: grpodyn scaling-law runs/0.5b runs/1.5b runs/3b runs/7b --size 14e9 --initial 0.4
    """
    from rich.console import Console

    from grpodyn import registry
    from grpodyn.cli.lookup import find_runs
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    opened = [open_run(path) for path in find_runs(runs)]
    result = registry.analysis("scaling_law").run(
        opened[0], others=opened[1:], metric=metric, axis=axis, size=size, initial=initial
    )
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
        return
    _show(Console(), result)


def _show(console: Console, result: Any) -> None:
    from rich.table import Table

    laws = Table(title="laws, and their error on runs that were left out", title_justify="left")
    for name in ("form", "error, left out", "error, fitted", "constants"):
        laws.add_column(name, justify="left" if name in ("form", "constants") else "right")
    for law in result.laws:
        constants = "  ".join(f"{name} {value:.4g}" for name, value in law.constants.items())
        laws.add_row(literal(law.form), figure(law.left_out_rmse), figure(law.rmse), literal(constants))
    laws.add_row("naive guess", figure(result.baseline_rmse), "–", "a run's start plus the others' mean gain")
    console.print(laws)
    table = Table(title="final reward, and as the other runs foretell it", title_justify="left")
    for name in ("run", "parameters", "initial", "final", "foretold"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for run in result.runs:
        table.add_row(
            literal(Path(run.run).name),
            f"{run.size:,.0f}",
            figure(run.initial),
            figure(run.final),
            figure(run.predicted_final),
        )
    console.print(table)
    if result.forecast is not None:
        one = result.forecast
        console.print(
            literal(
                f"a model of {one.size:,.0f} parameters that starts at {one.initial:.3f} ends at "
                f"{one.reward.value:.3f} [{one.reward.low:.3f}, {one.reward.high:.3f}] (80 %)"
            )
        )
    for warning in result.warnings:
        console.print(literal(f"• {warning}"))
