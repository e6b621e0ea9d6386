"""`grpodyn report`: one page about one run or several."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from grpodyn.reporting.execution import Executed


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run directories; the first is what others are held against.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the report; NAME-report if not given."),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="convergence, group_size, layer_dynamics, lora_advice or forgetting; may be repeated. If "
            "not given, all that have something to say.",
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--figures", metavar="FORMAT", help="Also write each figure as svg, pdf or png; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one page about runs: verdicts in words, then figures, with the executed notebooks beside it.

    The page needs no network and no scripts. What a run lacks is said in its place.

    Example: grpodyn report runs/full runs/lora -o runs/report
    """
    from grpodyn.cli.lookup import find_runs
    from grpodyn.cli.text import visible
    from grpodyn.cli.verbosity import colours
    from grpodyn.errors import EXIT_UNREADABLE, UsageError

    try:
        from grpodyn.reporting.report import write_report
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a report runs notebooks, and {error.name!r} is not installed: pip install 'grpodyn[reports]'"
        ) from error
    runs = find_runs(runs)
    folder = output if output is not None else Path(f"{runs[0].resolve().name}-report")
    started = time.perf_counter()

    def done(executed: Executed) -> None:
        state = "done" if executed.failed is None else "failed"
        typer.echo(f"{executed.kind}: {state} after {time.perf_counter() - started:.0f} s", err=True)

    found = write_report(runs, folder, kinds or (), formats or (), done)
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(found, indent=2))
    else:
        typer.echo(f"report: {visible(found.page)}")
        typer.echo(f"notebooks: {visible(found.page.parent / 'notebooks')}")
        if found.figures:
            typer.echo(f"figures: {visible(found.page.parent / 'figures')} ({len(found.figures)} files)")
    for failure in found.failed:
        typer.secho(f"grpodyn: not whole: {visible(failure)}", err=True, fg=typer.colors.RED, color=colours())
    if found.failed:
        raise typer.Exit(EXIT_UNREADABLE)
