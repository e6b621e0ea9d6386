"""`grpodyn import`: other people's logs and checkpoints as runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import literal
from grpodyn.errors import UsageError

if TYPE_CHECKING:
    from grpodyn.importers import History

_SHOWN = 12


def command(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG…", help="A log, a folder with one, or checkpoints.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The run directory to write; absent or empty.")],
    base: Annotated[
        Path | None, typer.Option(help="LOG… are checkpoints or adapters; this is the model they started from.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Which run to take from a table that holds several.")] = None,
    part: Annotated[
        int | None, typer.Option(help="Which run to take from a log that holds several, counted from 1.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The run config (YAML) it was trained with: what `diagnose --patch` changes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was imported as JSON.")] = False,
) -> None:
    """Write somebody else's log, or saved checkpoints, as a run that every command reads.

    Logs: trainer_state.json, JSON and JSONL, printed dicts, console lines of verl and OpenRLHF, CSV and copied tables,
    TensorBoard event files, offline runs of Weights & Biases, parquet of completions.

    Examples:

    grpodyn import trainer_state.json -o runs/theirs

    grpodyn import out/checkpoint-100 out/checkpoint-200 --base Qwen2.5-0.5B -o runs/theirs
    """
    settings = None
    if config is not None:
        from grpodyn.config import run as run_config

        settings = run_config.load(config).to_record()
    if base is not None:
        from grpodyn.importers.checkpoints import import_checkpoints

        facts = import_checkpoints(logs, base, output, settings)
        _show_checkpoints(output, facts, as_json)
        return
    if len(logs) > 1:
        raise UsageError(f"{len(logs)} logs are given, expected one; several checkpoints need --base")
    from grpodyn.importers import read_log, understand
    from grpodyn.importers.write import write_history

    history = understand(read_log(logs[0], run), part)
    write_history(history, output, str(logs[0]), settings)
    _show(output, history, as_json)


def _show(output: Path, history: History, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "run": str(output),
        "producer": history.producer,
        "rows": len(history.rows),
        "evaluations": len(history.evaluations),
        "batches": len(history.batches),
        "segments": len(history.starts),
        "renamed": dict(history.names.renamed),
        "unresolved": list(history.names.unresolved),
        "left_out": dict(history.left_out),
        "notes": list(history.notes),
        "sampled": history.sampled,
    }
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(facts, indent=2))
        return
    from rich.console import Console

    console = Console()
    counts = f"{facts['rows']} rows, {facts['evaluations']} evaluations, {facts['batches']} generation batches"
    console.print(literal(f"imported {history.producer} into {output}: {counts}"))
    renamed = [f"{own} → {name}" for own, name in history.names.renamed.items()]
    for label, items in (
        ("renamed", renamed),
        ("kept under their own names, not known here", facts["unresolved"]),
        ("left out, no metric", [f"{key} ({why})" for key, why in history.left_out.items()]),
    ):
        if items:
            more = f" and {len(items) - _SHOWN} more (--json lists all)" if len(items) > _SHOWN else ""
            console.print(literal(f"{label}: {', '.join(items[:_SHOWN])}{more}"))
    for note in history.notes:
        console.print(literal(f"note: {note}"))


def _show_checkpoints(output: Path, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(facts, indent=2))
        return
    from rich.console import Console

    console = Console()
    steps = ", ".join(map(str, facts["steps"]))
    console.print(literal(f"imported {facts['tensors']} tensors at steps {steps} into {output}"))
    for item in facts["skipped"]:
        console.print(literal(f"not there: {item['what']}: {item['why']}"))
