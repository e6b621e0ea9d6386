"""Shows a run while it trains: a live bar on a terminal, one plain line every few seconds anywhere else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

LINE_SECONDS = 10.0
"""Between two plain lines."""

# What is shown of the trainer's own log, by the key it logs under.
SHOWN_METRICS = {"reward": "reward", "entropy": "entropy", "completions/mean_length": "length"}


@dataclass(frozen=True)
class Moment:
    """Where a run is."""

    step: int
    total: int
    metrics: Mapping[str, float]
    """The last log of the trainer, under its own keys."""
    recorder_fraction: float
    """CPU seconds of the recorder per second of training so far; nan if unknown."""
    seconds_left: float
    """Estimate from the speed so far; nan if unknown."""


class Display(Protocol):
    """Somewhere to show a run."""

    def start(self) -> None:
        """Begin to show."""
        ...

    def show(self, moment: Moment) -> None:
        """Show where the run is now."""
        ...

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def stop(self) -> None:
        """Show nothing more; safe to call twice."""
        ...


def display_for(console: Console) -> Display:
    """Return the live display on a terminal, plain lines elsewhere."""
    return LiveDisplay(console) if console.is_terminal else LineDisplay(console)


def facts(moment: Moment) -> str:
    """Return the figures of a moment as one line; what is unknown is left out.

    >>> facts(Moment(3, 10, {"reward": 0.25, "entropy": 1.5, "loss": 0.0}, 0.016, 75))
    'reward 0.250 · entropy 1.500 · recorder 1.6 % · 1:15 left'
    """
    parts = [
        f"{label} {moment.metrics[key]:.3f}"
        for key, label in SHOWN_METRICS.items()
        if key in moment.metrics and math.isfinite(moment.metrics[key])
    ]
    if math.isfinite(moment.recorder_fraction):
        parts.append(f"recorder {moment.recorder_fraction:.1%}".replace("%", " %"))
    if math.isfinite(moment.seconds_left):
        left = str(timedelta(seconds=round(moment.seconds_left)))
        parts.append(f"{left.removeprefix('0:').removeprefix('0')} left")
    return " · ".join(parts)


class LiveDisplay:
    """A bar and the figures under it, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=40), console=console)
        self._task = self._progress.add_task("train", total=None)
        self._facts = Text()
        self._console = console
        self._live = Live(Group(self._progress, self._facts), console=console, refresh_per_second=4, transient=True)

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def show(self, moment: Moment) -> None:
        """Redraw the bar."""
        self._progress.update(self._task, completed=moment.step, total=moment.total)
        self._facts.plain = facts(moment)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        """Remove the bar."""
        self._live.stop()


class LineDisplay:
    """A line at the first and the last step and every `LINE_SECONDS` between."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._next = -math.inf

    def start(self) -> None:
        """Do nothing: the first step prints the first line."""

    def show(self, moment: Moment) -> None:
        """Print a line if it is time for one."""
        now = self._clock()
        if now >= self._next or moment.step == moment.total:
            self._next = now + LINE_SECONDS
            self.say(f"step {moment.step}/{moment.total} · {facts(moment)}")

    def say(self, text: str) -> None:
        """Print a line."""
        # soft_wrap: a log line stays one line however narrow rich believes the file to be.
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Do nothing: every line is already out."""
