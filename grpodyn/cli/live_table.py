"""A table that is redrawn in place while something long goes on, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from grpodyn.cli.text import literal


class LiveTable:
    """Redraws what `make` returns twice a second, from `open` to `close`.

    Args:
        console: where it is drawn; nothing is if that is no terminal.
        make: returns the table as it is now.
    """

    def __init__(self, console: Console, make: Callable[[], Table]) -> None:
        self._console = console
        self._make = make
        self._live: Live | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table is being drawn."""
        return self._live is not None

    def open(self) -> None:
        """Begin to draw, unless that has begun."""
        if self._live is None and self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._make, refresh_per_second=2, transient=True)
            self._live.start()

    def close(self) -> None:
        """Show nothing live any more."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def with_running(table: Table, lines: Iterable[str]) -> Table:
    """Put what runs now under a table; the lines are shown as they are, whatever stands in them."""
    table.caption = literal("\n".join(lines))
    table.caption_justify = "left"
    return table
