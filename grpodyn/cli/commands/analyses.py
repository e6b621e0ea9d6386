"""`grpodyn analyses`: the catalogue of what can be read from a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """List the analyses: what each finds, which measurements it requires, where its method comes from.

    Example: grpodyn analyses --json
    """
    from grpodyn.cli.catalogue import analysis_entries

    entries = analysis_entries()
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps({"analyses": entries}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("analysis", no_wrap=True)
    table.add_column("requires")
    table.add_column("finds (reference)")
    for entry in entries:
        finds = Text(entry.title).append(f"\n{entry.reference}", style="dim")
        table.add_row(entry.name, Text("\n".join(entry.requires)), finds, end_section=True)
    Console().print(table)
