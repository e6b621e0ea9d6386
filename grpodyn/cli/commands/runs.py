"""`grpodyn runs`: every run of a folder with its status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpodyn.cli.text import literal


def command(
    directory: Annotated[Path, typer.Argument(help="Folder that holds run directories.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """List the runs in a folder with their status.

    Example: grpodyn runs runs
    """
    from grpodyn.errors import UnreadableError
    from grpodyn.trace.overview import runs_under

    if not directory.is_dir():
        raise UnreadableError(f"{directory} is no folder; give one that holds run directories")
    found = runs_under(directory)
    if as_json:
        from grpodyn.trace import strict_json

        listed = [
            {"path": path, "status": "unreadable", "problems": [facts]}
            if isinstance(facts, str)
            else {"path": path, **facts.to_json()}
            for path, facts in found
        ]
        typer.echo(strict_json.dumps(listed, indent=2))
        return

    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("status")
    for heading in ("step", "rows", "segments", "problems"):
        table.add_column(heading, justify="right")
    for path, facts in found:
        if isinstance(facts, str):
            table.add_row(literal(path.name), "unreadable", "", "", "", "1")
        else:
            counts = (facts.last_step, sum(facts.rows.values()), len(facts.segments), len(facts.problems))
            table.add_row(literal(path.name), facts.status, *map(str, counts))
    console = Console()
    console.print(table if found else Text(f"{directory} holds no runs"))
