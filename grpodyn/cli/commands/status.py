"""`grpodyn status`: what is in a run, whole or not, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpodyn.cli.text import literal, visible

if TYPE_CHECKING:
    from rich.table import Table

    from grpodyn.trace.overview import Overview


def command(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    repair: Annotated[
        bool, typer.Option("--repair", help="First set unreadable files aside and cut the arrays to what is committed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what is in a run: rows, gaps, segments, damage, and the recorder's own cost.

    Example: grpodyn status runs/demo
    """
    from grpodyn.cli.lookup import find_run
    from grpodyn.trace.overview import overview
    from grpodyn.trace.reader import open_run
    from grpodyn.trace.repair import repair as repair_run

    run = find_run(run)
    opened = open_run(run)
    done = repair_run(run) if repair else []
    facts = overview(open_run(run) if repair else opened)
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(facts.to_json() | ({"repaired": done} if repair else {}), indent=2))
        return
    _show(run, facts, done if repair else None)


def _show(path: Path, facts: Overview, done: list[str] | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sentence in done or ():
        console.print(literal(f"repaired: {sentence}"))
    if done == []:
        console.print("repaired: nothing to do")
    console.print(Text.assemble(("run ", "bold"), visible(f"{path} ({facts.run_id})")))
    until = f" at step {facts.last_step}" if facts.last_step >= 0 else ""
    console.print(Text.assemble((f"{facts.status}{until}", "bold")))
    console.print(_rows_table(facts))
    if facts.recorder.seconds is not None:
        share = facts.recorder.fraction_of_step
        shown = "" if share is None else f", {100 * share:.2f} % of the steps' time"
        console.print(literal(f"recorder: {facts.recorder.seconds:.2f} CPU seconds{shown}"))
    if len(facts.segments) > 1:
        starts = ", ".join(str(segment.get("start_step")) for segment in facts.segments)
        console.print(literal(f"segments: {len(facts.segments)}, started at steps {starts}"))
    if facts.stages is not None:
        from grpodyn.cli.stages_view import stages_table

        console.print(stages_table(facts.stages))
    for skip in facts.skipped:
        console.print(literal(f"not recorded: {skip['what']}: {skip['why']}"))
    for problem in facts.problems:
        console.print(literal(f"problem: {problem}"))


def _rows_table(facts: Overview) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("group")
    table.add_column("rows", justify="right")
    table.add_column("gaps (last step before → first after)")
    for group, rows in facts.rows.items():
        gaps = [f"{gap.after} → {gap.before}" for gap in facts.gaps if gap.group == group]
        listed = ", ".join(gaps[:4]) + (f" and {len(gaps) - 4} more" if len(gaps) > 4 else "")
        table.add_row(group, str(rows), listed)
    return table
