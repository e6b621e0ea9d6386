"""An attribution in the terminal: its cost before it starts, its progress, and tables that fit 80 columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from grpodyn.attribution.result import Attribution, PartResult, Range
from grpodyn.attribution.run import Plan, Watcher
from grpodyn.cli.text import figure, literal

_PARTITIONS = {"layers": "by layer", "modules": "by module type"}


class Live:
    """Shows what an attribution will cost and how far it is, on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("evaluations"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._bar = self._progress.add_task("evaluations", total=None)
        self.watcher = Watcher(self._planned, self._evaluated)
        self._made = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stopped(self, folder: Path) -> None:
        """Say what is kept after Ctrl-C."""
        self._progress.stop()
        self._console.print(
            literal(
                f"stopped after {self._made} new evaluations; they are kept in {folder}, and the same command goes on "
                "with them"
            )
        )

    def _planned(self, plan: Plan) -> None:
        minutes = f"about {plan.minutes:.1f} min" if not math.isnan(plan.minutes) else "most of them known already"
        self._console.print(
            literal(
                f"{plan.changed} tensors changed; at most {plan.evaluations} evaluations of {plan.prompts} prompts "
                f"({plan.tokens / 1e6:.2g} M tokens), {minutes}"
            )
        )
        self._progress.update(self._bar, total=plan.evaluations)

    def _evaluated(self, made: int) -> None:
        self._made = made
        self._progress.update(self._bar, completed=made)


def show(found: Attribution, folder: Path, console: Console | None = None) -> None:
    """Print what was found."""
    out = console or Console()

    def say(text: str) -> None:
        out.print(literal(text))

    say(f"base {_range(found.base)}, trained {_range(found.final)}, gain {_range(found.gain)}; {_measured(found)}")
    if found.baseline is not None:
        say(_confidence(found))
    out.print()
    say(f"{found.verdict}: {found.reading.text}")
    if found.reading.beside:
        say(found.reading.beside)
    for name, title in _PARTITIONS.items():
        if parts := found.of_partition(name):
            out.print(_table(title, parts))
            say(_sums(found, name))
    if found.truncation:
        out.print(_truncation(found))
    if found.shapley:
        say(_shapley(found))
    for null in found.null:
        kept = null["kept"] if isinstance(null["kept"], Range) else Range.model_validate(null["kept"])
        say(f"{null['what']}, the same size in random directions: {_range(kept, '.2f')} of the gain")
    if found.confirm:
        out.print(_table("the named parts on the prompts of `confirm`", found.confirm))
    outside = [part for part in found.layers if not part.is_target]
    for part in outside:
        say(f"{part.part} hold {_range(part.share, '.2f')} of the gain and are not a LoRA target")
    if not math.isnan(found.resolution):
        say(f"smallest share that these prompts could tell from 0: {found.resolution:.2f} of the gain")
    for note in found.notes:
        say(f"• {note}")
    say(f"{found.evaluations} evaluations; written to {folder / 'attribution.json'}")
    say("this is where this run's change is stored; whether the next run should train there, an ablation tells")


def _measured(found: Attribution) -> str:
    prompts = found.sources["prompts"]["choose"]["prompts"]
    return f"{found.sources['evaluator']}, {prompts} prompts"


def _confidence(found: Attribution) -> str:
    baseline = found.baseline or {}
    reached = baseline["accuracy"] >= found.final.low
    reading = "as good as training, which may have added confidence only" if reached else "confidence alone is not it"
    return (
        f"the base at its best temperature ({baseline['temperature']:g}): {baseline['accuracy']:.3f}, {reading}; "
        f"greedy {figure(found.greedy['base'])} → {figure(found.greedy['final'])}"
    )


def _table(title: str, parts: tuple[PartResult, ...]) -> Table:
    table = Table(title=f"{title} (shares of the gain)", title_justify="left")
    table.add_column("part", overflow="fold")
    for name in ("keep\nonly", "put\nback", "kept alone", "lost without"):
        table.add_column(name, justify="right")
    for part in parts:
        table.add_row(
            literal(part.part if part.is_target else f"{part.part} *"),
            figure(part.keep_only.value),
            figure(part.put_back.value),
            _range(part.kept, ".2f"),
            _range(part.lost, ".2f"),
        )
    if any(not part.is_target for part in parts):
        table.caption = "* not a LoRA target"
        table.caption_justify = "left"
    return table


def _sums(found: Attribution, name: str) -> str:
    sums = next(p for p in found.partitions if p.name == name)
    return (
        f"kept alone they add up to {figure(sums.kept_sum.value, '.2f')} of the gain, put back they cost "
        f"{figure(sums.lost_sum.value, '.2f')}; 1 and 1 would be parts that do not interact"
    )


def _truncation(found: Attribution) -> Table:
    table = Table(title="every change cut to a rank", title_justify="left")
    for name in ("rank", "accuracy", "of the gain"):
        table.add_column(name, justify="right")
    for row in found.truncation:
        table.add_row(str(row.rank), figure(row.accuracy.value), _range(row.kept, ".2f"))
    return table


def _shapley(found: Attribution) -> str:
    values = found.shapley or {}
    shares = [
        f"{p['part']} "
        f"{_range(p['share'] if isinstance(p['share'], Range) else Range.model_validate(p['share']), '.2f')}"
        for p in values["players"]
    ]
    how = "exact" if values["exact"] else f"{values['orders']} sampled orders"
    return f"Shapley values ({how}): {'; '.join(shares)}"


def _range(value: Range, form: str = ".3f") -> str:
    if math.isnan(value.low):
        return figure(value.value, form)
    low, high = figure(value.low, form), figure(value.high, form)
    return f"{figure(value.value, form)} ({low} to {high})"
