"""`grpodyn watch`: a run while it is written, live in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from grpodyn.watching import Follower, Snapshot

_SPAN_OF_ONE_FRAME = 24


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, the beginning of its name, or latest.")],
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="KEY", help="Show this instead of the training reward.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what one frame shows as JSON and end.")] = False,
) -> None:
    """Follow a run live: reward and where it is going, findings, groups, what moves most, the recorder's cost.

    The run may be on this machine or on a mounted disk; nothing is written to it. q or Ctrl-C ends the view, the run
    goes on. Where standard output is no terminal, one frame is printed.

    Examples:

    grpodyn watch latest

    grpodyn watch /mnt/cluster/runs/full --every 5
    """
    from rich.console import Console

    from grpodyn.cli.lookup import find_run
    from grpodyn.watching import Follower

    follower = Follower(find_run(run), metric)
    first = follower.look()
    if first is None:
        return
    console = Console()
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(first, indent=2))
    elif once or not console.is_terminal:
        height = console.height if console.is_terminal else _SPAN_OF_ONE_FRAME
        _draw_once(console, first, height)
    else:
        _follow(console, follower, first, every)


def _draw_once(console: Console, snapshot: Snapshot, height: int) -> None:
    from grpodyn.cli.watch_view import frame

    console.print(frame(snapshot, console.width, height, plain=_plain(console)))


def _follow(console: Console, follower: Follower, snapshot: Snapshot, every: float) -> None:
    from contextlib import suppress

    from rich.live import Live

    from grpodyn.cli.keys import keys
    from grpodyn.cli.watch_view import frame
    from grpodyn.errors import UnreadableError

    note, shown = "", None
    with suppress(KeyboardInterrupt), keys() as wait, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if shown != (snapshot, note, console.size):
                shown = (snapshot, note, console.size)
                width, height = console.size
                drawn = frame(snapshot, width, height, plain=_plain(console), hint="q quits", note=note)
                live.update(drawn, refresh=True)
            if wait(every) in ("q", "Q"):
                return
            try:
                snapshot = follower.look() or snapshot
                note = ""
            except UnreadableError as error:
                # A mounted disk may be gone for a while; what was read last is still true.
                note = f"cannot be read now: {error}"


def _plain(console: Console) -> bool:
    return not console.encoding.lower().startswith("utf")
