"""Tables that are redrawn in place."""

import io

from rich.console import Console
from rich.table import Table

from grpodyn.cli.live_table import LiveTable, with_running


def drawn(table: Table) -> str:
    console = Console(file=io.StringIO(), width=60)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_what_runs_is_shown_as_it_is():
    """A task's or an arm's name is text of a file, and no markup."""
    table = Table("wide enough that the caption needs no second line")
    assert "[red]arm[/red] [/]" in drawn(with_running(table, ["[red]arm[/red] [/]"]))


def test_nothing_is_drawn_where_there_is_no_terminal():
    live = LiveTable(Console(file=io.StringIO()), lambda: Table("a"))
    live.open()
    assert not live.is_open
    live.close()


def test_it_is_drawn_on_a_terminal_until_it_is_closed():
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    live = LiveTable(console, lambda: with_running(Table("head"), ["[red]"]))
    live.open()
    live.open()
    assert live.is_open
    live.close()
    assert not live.is_open
    assert "head" in console.file.getvalue()  # type: ignore[attr-defined]
