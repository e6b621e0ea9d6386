"""Shows a sweep: live while it trains, and its result as tables."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grpodyn.cli.live_table import LiveTable, with_running
from grpodyn.cli.text import figure, literal
from grpodyn.evaluation.records import ACCURACY, GREEDY
from grpodyn.studies.measures import RATIO

if TYPE_CHECKING:
    from grpodyn.statistics import Interval
    from grpodyn.studies.index import Entry, Index
    from grpodyn.studies.results import ArmResult, Difference, SweepResult

_FIRST = (ACCURACY, GREEDY)
_MOST_COLUMNS = 3


class SweepView:
    """Progress of a sweep: a table in place on a terminal, a line at each start and end elsewhere."""

    def __init__(self, console: Console, workers: int) -> None:
        self._console = console
        self._workers = workers
        self._live = LiveTable(console, self._table)
        self._logs: dict[str, Path] = {}
        self._began: dict[str, float] = {}
        self._running: Sequence[Entry] = ()
        self._index: Index | None = None
        self._result: SweepResult | None = None

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._console.print(literal(text), highlight=False, soft_wrap=True)

    def begun(self, entry: Entry, log: Path) -> None:
        """Remember where a run's process speaks."""
        self._logs[entry.name] = log
        self._began[entry.name] = time.monotonic()
        if not self._console.is_terminal:
            self.say(f"{entry.name}: {'begins' if entry.starts == 1 else 'goes on'}")

    def ended(self, entry: Entry) -> None:
        """Say how a run has ended."""
        took = timedelta(seconds=round(time.monotonic() - self._began.pop(entry.name, time.monotonic())))
        if entry.state == "failed":
            self.say(f"{entry.name}: failed after {took}: {entry.error}")
        elif not self._console.is_terminal:
            self.say(f"{entry.name}: {entry.state} after {took}{self._progress()}")

    def _progress(self) -> str:
        if self._index is None:
            return ""
        entries = self._index.entries
        # This one's state is not in the index that was shown last.
        done = 1 + sum(entry.state == "done" for entry in entries)
        return f" ({done} of {len(entries)} done)" if done <= len(entries) else ""

    def tick(self, index: Index, running: Sequence[Entry]) -> None:
        """Take up where every run is."""
        self._index, self._running = index, running
        self._live.open()

    def found(self, result: SweepResult) -> None:
        """Take up what is known."""
        self._result = result

    def close(self) -> None:
        """Show nothing live any more."""
        self._live.close()

    def _table(self) -> Table:
        from grpodyn.studies.child import last_line

        entries = self._index.entries if self._index is not None else ()
        done = [entry for entry in entries if entry.state == "done"]
        head = f"{len(done)} of {len(entries)} runs done{self._left(entries, done)}"
        if self._result is None or not any(arm.values for arm in self._result.arms):
            table = Table(title=head, title_justify="left", show_header=False)
        else:
            table = arms_table(self._result.arms, head)
        return with_running(table, [f"{entry.name}: {last_line(self._logs[entry.name])}" for entry in self._running])

    def _left(self, entries: Sequence[Entry], done: Sequence[Entry]) -> str:
        if not done:
            return ""
        each = median(entry.seconds for entry in done)
        waiting = len([entry for entry in entries if entry.state in ("pending", "interrupted")])
        now = time.monotonic()
        current = [max(0.0, each - (now - self._began.get(entry.name, now))) for entry in self._running]
        seconds = (waiting * each + sum(current)) / self._workers
        return f", about {timedelta(seconds=round(seconds))} left"


def show(console: Console, result: SweepResult) -> None:
    """Print a result."""
    if result.question:
        console.print(literal(result.question), style="bold")
    if any(arm.values for arm in result.arms):
        console.print(arms_table(result.arms, "means over seeds, ± half of the 95 % t interval"))
    differences = [one for one in result.differences if one.metric in _shown(result.arms)]
    if differences:
        console.print(_differences_table(differences, result.reference))
    for line in [*result.reading, *result.notes]:
        console.print(literal(f"• {line}"), soft_wrap=True)


def _shown(arms: Sequence[ArmResult]) -> list[str]:
    """Return the metrics that fit a table: accuracy, what became of texts, and then whatever there is."""
    known = list(dict.fromkeys(metric for arm in arms for metric in arm.values))
    first = [metric for metric in _FIRST if metric in known]
    ratios = [metric for metric in known if metric.startswith(RATIO) and "@" not in metric]
    at_level = [metric for metric in known if metric.startswith(RATIO) and "@" in metric]
    others = [metric for metric in ("train/reward", "train/completions/mean_length") if metric in known]
    return list(dict.fromkeys([*first[:1], *ratios, *at_level, *first[1:], *others]))[:_MOST_COLUMNS]


def arms_table(arms: Sequence[ArmResult], title: str) -> Table:
    """Return what each arm reaches."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("arm", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    shown = _shown(arms)
    for metric in shown:
        table.add_column(literal(_heading(metric)), justify="right", overflow="fold")
    for arm in arms:
        values = [_give_or_take(arm.values[metric]) if metric in arm.values else "–" for metric in shown]
        table.add_row(literal(arm.arm), str(len(arm.seeds)), *values)
    return table


def _heading(metric: str) -> str:
    name, _, level = metric.partition("@")
    short = name.replace("heldout/", "").replace("_ratio/", " ×\n")
    return f"{short}\nat {level.rsplit('/', 1)[-1]}" if level else short


def _differences_table(differences: Sequence[Difference], reference: str) -> Table:
    table = Table(title=literal(f"against {reference}, paired by seed"), title_justify="left", box=SIMPLE_HEAD)
    for name in ("arm", "metric", "difference", "p"):
        table.add_column(name, justify="right" if name in ("difference", "p") else "left", overflow="fold")
    for one in differences:
        form, sign = (".3f", "×") if one.scale == "factor" else ("+.3f", "")
        table.add_row(
            literal(one.arm), literal(one.metric), sign + _give_or_take(one.difference, form), figure(one.p, ".2g")
        )
    return table


def _give_or_take(interval: Interval, form: str = ".3f") -> str:
    if math.isnan(interval.value):
        return "–"
    half = (interval.high - interval.low) / 2
    return format(interval.value, form) if math.isnan(half) else f"{interval.value:{form}} ±{half:.3f}"
