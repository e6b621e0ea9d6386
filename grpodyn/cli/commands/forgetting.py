"""`grpodyn forgetting`: what a run lost beside what it gained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from grpodyn.cli.text import figure, literal

_MOST_ROWS = 12


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    texts: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILE", help="Measure this text now, on the base and the saved weights."),
    ] = None,
    base: Annotated[Path | None, typer.Option(help="Folder of the base, if the run's is gone; for --text.")] = None,
    final: Annotated[Path | None, typer.Option(help="Folder of the trained weights, for --text.")] = None,
    window: Annotated[int, typer.Option(min=1, help="Tokens of a window, for --text.")] = 256,
    most_windows: Annotated[int, typer.Option("--windows", min=2, help="Windows of a text, for --text.")] = 200,
    device: Annotated[str, typer.Option(help="Where to measure, for --text.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say what a run lost: perplexity of fixed text, earlier stages, drift of the policy, against what it gained.

    Example: grpodyn forgetting runs/full --text wiki.txt
    """
    from grpodyn import registry
    from grpodyn.cli.lookup import find_run
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    run = find_run(run)
    opened = open_run(run)
    measured = []
    if texts:
        from grpodyn.evaluation.saved import measure_texts

        measured = measure_texts(
            opened,
            texts,
            window=window,
            most_windows=most_windows,
            base=base,
            final=final,
            device=device,
            say=lambda line: typer.echo(line, err=True),
        )
    result = registry.analysis("forgetting").run(opened, measured=measured)
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
        return
    _show(result)


def _show(result: Any) -> None:
    from rich.console import Console

    console = Console()
    console.print(literal(f"steps {result.first_step} to {result.last_step}, {result.status}"))
    if result.perplexity or result.stages:
        console.print(_changes(result))
    console.print(_curve(result))
    for note in (*_layers(result), *result.notes):
        console.print(literal(f"• {note}"))


def _changes(result: Any) -> Any:
    from rich.table import Table

    table = Table(title="before and after", title_justify="left")
    for name in ("", "before", "after", "change", "95 %", "of"):
        table.add_column(name, justify="left" if not name else "right")
    for one in result.perplexity:
        low, high = figure(one.ratio.low), figure(one.ratio.high)
        cells = (figure(one.before, ".4g"), figure(one.after, ".4g"), f"× {figure(one.ratio.value)}", f"{low}–{high}")
        table.add_row(literal(f"perplexity {one.text}"), *cells, f"{one.windows or '–'} windows")
        if not math.isnan(one.word_before):
            table.add_row("  per word", figure(one.word_before, ".4g"), figure(one.word_after, ".4g"))
    for one in result.stages:
        low, high = figure(one.difference.low, "+.3f"), figure(one.difference.high, "+.3f")
        cells = (figure(one.before), figure(one.after), figure(one.difference.value, "+.3f"), f"{low}–{high}")
        table.add_row(literal(f"stage {one.name}"), *cells, f"{one.prompts or '–'} prompts")
    return table


def _curve(result: Any) -> Any:
    from rich.table import Table

    table = Table(title="what was lost against what was gained", title_justify="left")
    texts = list(dict.fromkeys(name for point in result.curve for name in point.perplexity_ratio))
    stages = list(dict.fromkeys(name for point in result.curve for name in point.stage_difference))
    drift = {one.step: one.forward_kl for one in result.kl}
    for name in ("step", "gain", "KL, nats", *(f"× {text}" for text in texts), *stages):
        table.add_column(literal(name), justify="right")
    for point in _some(result.curve):
        kl = drift.get(point.step)
        half = "" if kl is None or not kl.known else f" ± {(kl.high - kl.low) / 2:.2g}"
        table.add_row(
            str(point.step),
            figure(point.gain, "+.3f"),
            figure(point.forward_kl) + half,
            *(figure(point.perplexity_ratio.get(text, math.nan)) for text in texts),
            *(figure(point.stage_difference.get(stage, math.nan), "+.3f") for stage in stages),
        )
    return table


def _some(curve: Any) -> list[Any]:
    """Return the ends and evenly spaced points between: a table that fits a screen."""
    if len(curve) <= _MOST_ROWS:
        return list(curve)
    chosen = sorted({round(i * (len(curve) - 1) / (_MOST_ROWS - 1)) for i in range(_MOST_ROWS)})
    return [curve[i] for i in chosen]


def _layers(result: Any) -> list[str]:
    if not result.layers:
        return []
    most = sorted(result.layers.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{name} {share:.0%}" for name, share in most)
    return [f"largest shares of displacement: {named} (of {len(result.layers)} layers)", result.no_cause]
