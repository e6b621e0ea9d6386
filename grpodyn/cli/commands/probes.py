"""`grpodyn probes`: the catalogue of what can be measured."""

from __future__ import annotations

from typing import Annotated

import typer


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """List the probes: what each measures, where it lands in a trace, what it costs, how often it runs.

    Example: grpodyn probes --json
    """
    from grpodyn.cli.catalogue import probe_entries

    entries = probe_entries()
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps({"probes": entries}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        caption="Every: steps between two measurements in light, standard, full; – is first and last step only, "
        "? only where `record.probes` or `record.every` names it."
    )
    table.add_column("probe", no_wrap=True)
    table.add_column("lands in, costs", no_wrap=True)
    table.add_column("measures (reference)")
    for entry in entries:
        every = ", ".join("?" if steps is None else str(steps or "–") for steps in entry.cadence.values())
        # Stacked, so that the definition keeps half of an 80-column terminal.
        where = f"{entry.group}, unit {entry.unit}\n{entry.cost}\nevery {every}"
        measures = Text(entry.title).append(f"\n{entry.reference}", style="dim")
        table.add_row(entry.name, where, measures, end_section=True)
    Console().print(table)
