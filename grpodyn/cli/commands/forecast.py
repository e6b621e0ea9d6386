"""`grpodyn forecast`: where a run's reward is going."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import figure, literal

if TYPE_CHECKING:
    from rich.console import Console

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Key of the log or of the evaluations; the reward if not given.")
    ] = None,
    axis: Annotated[
        str, typer.Option("--x", help="What the fit runs along: step, prompts, completions, tokens or seconds.")
    ] = "step",
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Gain that is not worth going on for, in the metric's unit.")
    ] = None,
    at: Annotated[
        list[int] | None, typer.Option("--at", help="Step to predict the reward at; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say whether a run is still gaining, where it will end, and when to stop; or that nothing can be told.

    Example: grpodyn forecast runs/full --x completions
    """
    from rich.console import Console

    from grpodyn import registry
    from grpodyn.cli.lookup import find_run
    from grpodyn.series import reward_series
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    run = find_run(run)
    opened = open_run(run)
    result = registry.analysis("forecast").run(
        opened, metric=metric, axis=axis, epsilon=epsilon, at_steps=tuple(at or ())
    )
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
        return
    _show(Console(), result, reward_series(opened, metric).value.tolist())


def _show(console: Console, result: Any, values: list[float]) -> None:
    console.print(literal(f"{result.metric}, steps {result.first_step}–{result.last_step}{_planned(result)}"))
    if values:
        console.print(literal(f"{sparkline(values)}  {min(values):.3f} … {max(values):.3f}"))
    console.print(literal(f"verdict: {result.verdict}"), style="bold")
    for line in (*result.why, *result.notes):
        console.print(literal(f"• {line}"))
    console.print(_numbers(result))
    if result.candidates:
        console.print(_candidates(result))


def _planned(result: Any) -> str:
    return "" if result.max_steps is None else f" of {result.max_steps}"


def sparkline(values: list[float], width: int = _WIDTH) -> str:
    """Return values as a line of bars, averaged down to `width`.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    size = -(-len(values) // width)
    means = [sum(part) / len(part) for i in range(0, len(values), size) if (part := values[i : i + size])]
    low, high = min(means), max(means)
    top = len(_BARS) - 1
    return "".join(_BARS[round((value - low) / (high - low) * top) if high > low else 0] for value in means)


def _interval(value: Any, form: str = ".3f") -> str:
    if value is None:
        return "–"
    return f"{figure(value.value, form)}  [{figure(value.low, form)}, {figure(value.high, form)}]"


def _numbers(result: Any) -> Any:
    from rich.table import Table

    table = Table(title="80 % intervals in brackets", title_justify="left", show_header=False)
    rows = [
        ("reward now", _interval(result.level)),
        (f"reward at step {result.max_steps}", _interval(result.final)),
        *((f"reward at step {step}", _interval(value)) for step, value in (result.at or {}).items()),
        ("asymptote", _interval(result.asymptote)),
        ("gain that is left", _interval(result.remaining_gain)),
        ("slow start until step", _interval(result.phases.slow, ".0f")),
        ("rapid phase from step", _interval(result.phases.rapid, ".0f")),
        ("plateau from step", _interval(result.phases.plateau, ".0f")),
        (
            f"step from which less than {figure(result.epsilon, '.3g')} is left",
            "–" if result.stop_step is None else str(result.stop_step),
        ),
        ("stopping now saves", _saving(result.saving)),
    ]
    for name, value in rows:
        if value != "–":
            table.add_row(literal(name), literal(value))
    return table


def _saving(saving: Any) -> str:
    if saving is None:
        return "–"
    return f"{saving.steps} steps ({saving.share:.0%}) for {_interval(saving.lost)} of reward"


def _candidates(result: Any) -> Any:
    from rich.table import Table

    table = Table(title=f"forms, residuals with AR(1) of about {result.autocorrelation:.2f}", title_justify="left")
    for name in ("form", "AICc", "R²", "parameters", ""):
        table.add_column(name, justify="right" if name in ("AICc", "R²") else "left")
    best = min(one.aicc for one in result.candidates)
    for one in result.candidates:
        parameters = "  ".join(f"{name} {value:.4g}" for name, value in one.parameters.items())
        table.add_row(
            literal(one.model),
            literal(f"+{one.aicc - best:.1f}"),
            literal(figure(one.r2)),
            literal(parameters),
            literal(one.rejected),
        )
    return table
