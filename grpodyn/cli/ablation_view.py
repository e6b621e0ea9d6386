"""Shows an ablation: live while it trains, and its result as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grpodyn.cli.live_table import LiveTable, with_running
from grpodyn.cli.text import figure, literal

if TYPE_CHECKING:
    from grpodyn.ablation.plan import TaskPlan
    from grpodyn.ablation.records import Job, Record
    from grpodyn.ablation.results import Ablation, ArmResult, Comparison
    from grpodyn.statistics import Interval
    from grpodyn.training.display import Moment


class AblationView:
    """Progress of a study: a table in place on a terminal, a line a training elsewhere."""

    def __init__(self, console: Console) -> None:
        from grpodyn.training.display import display_for

        self._console = console
        self._training = display_for(console)
        self._live = LiveTable(console, self._table)
        self._head = ""
        self._running: dict[str, str] = {}
        self._result: Ablation | None = None

    def start(self) -> None:
        """Show a source run that begins."""
        self._training.start()

    def show(self, moment: Moment) -> None:
        """Show a source run."""
        self._training.show(moment)

    def stop(self) -> None:
        """A source run has ended."""
        self._training.stop()

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def planned(self, plans: Sequence[TaskPlan], done: int, total: int) -> None:
        """Say what will be trained and what it costs in parameters."""
        for plan in plans:
            self.say(
                f"{plan.name}: {plan.candidate} is put to the test at {plan.budget:,} of "
                f"{plan.all_linear_parameters:,} parameters (all-linear at its rank)"
            )
            for arm, why in plan.impossible.items():
                self.say(f"{plan.name}: no arm {arm}: {why}")
        self.say(f"{done} of about {total} trainings and base measurements are there")
        if done < total:
            self._live.open()

    def begun(self, job: Job) -> None:
        """Remember what is being trained."""
        self._running[job.key] = f"{job.task} {job.arm} ({job.phase}, seed {job.seed}, lr {job.learning_rate:g})"

    def ended(self, job: Job, record: Record, done: int, total: int, left: float) -> None:
        """Say what has come of it."""
        self._running.pop(job.key, None)
        remaining = "" if math.isnan(left) else f", about {timedelta(seconds=round(left))} left"
        self._head = f"{done} of about {total}{remaining}"
        if record.error is not None:
            self.say(f"{job.task} {job.arm} seed {job.seed} lr {job.learning_rate:g} failed: {record.error}")
        elif not self._live.is_open:
            self.say(
                f"[{done}/{total}{remaining}] {job.task} {job.arm} {job.phase} seed {job.seed} "
                f"lr {job.learning_rate:g}: {record.accuracy:.3f} on {record.split}"
            )

    def found(self, result: Ablation) -> None:
        """Show the arms as far as they are known."""
        self._result = result

    def close(self) -> None:
        """Show nothing live any more."""
        self._live.close()

    def _table(self) -> Table:
        if self._result is None:
            table = Table(title=self._head, title_justify="left", show_header=False)
        else:
            table = arms_table(self._result.arms, title=self._head)
        return with_running(table, self._running.values())


def show(console: Console, result: Ablation) -> None:
    """Print a result."""
    for base in result.bases:
        arms = [arm for arm in result.arms if arm.task == base.task]
        console.print(arms_table(arms, title=f"{base.task}, held out"))
        console.print(
            literal(
                f"the untouched base: {base.accuracy:.3f} at T=1, {base.greedy:.3f} greedily, {base.best:.3f} at "
                f"T={base.best_temperature:g}\n"
            )
        )
        console.print(costs_table(arms, result.level))
        console.print(comparisons_table([c for c in result.comparisons if c.task == base.task]))
    for line in [*result.reading, *result.notes]:
        console.print(literal(f"• {line}"))
    console.print(literal(f"verdict: {result.verdict}"), style="bold")


def arms_table(arms: Sequence[ArmResult], title: str) -> Table:
    """Return what each arm reaches."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in ("arm", "parameters", "accuracy", "greedy", "gain kept"):
        table.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
    for arm in arms:
        table.add_row(
            literal(arm.arm),
            f"{arm.trainable_params:,}",
            _give_or_take(arm.accuracy),
            figure(arm.greedy.value),
            _range(arm.gain_kept),
        )
    return table


def costs_table(arms: Sequence[ArmResult], level: float) -> Table:
    """Return how each arm gets there."""
    title = f"steps to {level:.0%} of all-linear's gain; skill: over the base made as sure"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in ("arm", "lr", "seeds", "steps", "KL", "skill"):
        table.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
    for arm in arms:
        table.add_row(
            literal(arm.arm),
            _rate(arm),
            str(len(arm.seeds)),
            _steps(arm),
            figure(arm.kl.value, ".2f"),
            figure(arm.skill_gain.value, "+.3f"),
        )
    return table


def comparisons_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the differences; only primary comparisons carry a p."""
    table = Table(title="differences of accuracy, paired by seed", title_justify="left", box=SIMPLE_HEAD)
    for name in ("comparison", "difference", "p", "Holm", "outcome"):
        table.add_column(name, justify="right" if name in ("difference", "p", "Holm") else "left", no_wrap=True)
    for c in comparisons:
        claim = {"not_worse": "not worse than", "better": "better than", "descriptive": "−"}[c.test]
        described = c.test == "descriptive"
        table.add_row(
            literal(f"{c.a} {claim}\n  {c.b}"),
            _give_or_take(c.difference, "+.3f"),
            "" if described else figure(c.p, ".2g"),
            "" if described else figure(c.p_holm, ".2g"),
            "" if described else c.outcome,
        )
    return table


def _give_or_take(interval: Interval, form: str = ".3f") -> str:
    if math.isnan(interval.value):
        return "–"
    half = (interval.high - interval.low) / 2
    return format(interval.value, form) if math.isnan(half) else f"{interval.value:{form}} ±{half:.3f}"


def _range(interval: Interval) -> str:
    if math.isnan(interval.value):
        return "–"
    if not math.isfinite(interval.low) or not math.isfinite(interval.high) or interval.low == interval.high:
        return f"{interval.value:.0%}"
    return f"{interval.value:.0%} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def _rate(arm: ArmResult) -> str:
    if math.isnan(arm.learning_rate):
        return "–"
    return f"{arm.learning_rate:.1e}".replace("e-0", "e-") + ("*" if arm.at_edge else "")


def _steps(arm: ArmResult) -> str:
    if not arm.seeds:
        return "–"
    if arm.reached < len(arm.seeds):
        return f"{arm.reached} of {len(arm.seeds)}"
    return figure(arm.steps_to_level.value, ".0f")
