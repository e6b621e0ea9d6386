"""LoRA advice as text and tables that fit 80 columns; shows what was found and computes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grpodyn.cli.text import figure, literal
from grpodyn.lora.advice import Advice
from grpodyn.lora.findings import GroupMovement, Movement, Ranged
from grpodyn.lora.literature import Conflict
from grpodyn.lora.rungs import RUNG_NAMES
from grpodyn.lora.savings import Savings

_MAX_LAYER_ROWS = 48


def show(advice: Advice, written: Sequence[str], console: Console | None = None) -> None:
    """Print the advice, what it rests on, what limits it, and what would settle it."""
    out = _Page(console or Console())
    movement = advice.movement
    out.say(
        f"Run {movement.run_id}: {movement.status}, {movement.recorded_steps} recorded steps up to {movement.last_step}"
    )
    out.head("Advice")
    out.say(f"{advice.verdict}.")
    out.table(_config(advice))
    if advice.savings is not None:
        out.head("What it saves, beside all linear modules at this rank")
        out.table(_savings(advice.savings))
    out.head(f"What it rests on: {RUNG_NAMES[advice.rung]} (rung {advice.rung} of 3: movement, patch test, ablation)")
    for item in advice.evidence:
        if not item.is_spread:
            out.say(f"• {item.statement}{_references(item.references)}")
    out.say(f"smallest difference it could have seen: {advice.smallest_difference}")
    out.table(_groups("module type", movement.modules))
    if len(movement.layers) <= _MAX_LAYER_ROWS:
        out.table(_groups("layer", movement.layers))
    out.table(_spreads(movement))
    out.head("What limits it")
    for warning in advice.warnings:
        out.say(f"• {warning}")
    out.head("Where studies disagree")
    for conflict in advice.conflicts:
        _conflict(out, conflict)
    out.head("Next cheapest experiment")
    out.say(advice.next_experiment.question)
    for line in advice.next_experiment.commands:
        out.command(line)
    out.say(advice.next_experiment.reading)
    if written:
        out.head("Written")
        for line in written:
            out.say(line)


class _Page:
    """A console that prints plain text: what stands in a run is data and may hold markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str, indent: int = 0) -> None:
        self._console.print(Padding(literal(text), (0, 0, 0, indent)))

    def head(self, title: str) -> None:
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def table(self, table: Table) -> None:
        self._console.print(table)

    def command(self, line: str) -> None:
        # A wrapped command could not be copied.
        self._console.print(literal(f"  {line}"), soft_wrap=True)


def _conflict(out: _Page, conflict: Conflict) -> None:
    out.say(f"• {conflict.topic}{_references(conflict.references)}")
    for position in conflict.positions:
        out.say(f"– {position}", indent=2)
    out.say(f"here: {conflict.here}", indent=2)


def _references(references: Sequence[str]) -> str:
    return f" [{', '.join(references)}]" if references else ""


def _config(advice: Advice) -> Table:
    config, training = advice.peft_config, advice.training
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    kind = "DoRA" if config["use_dora"] else "rsLoRA" if config["use_rslora"] else "LoRA"
    share = advice.trainable_params / advice.all_linear_params
    cap = f"a server's cap must allow rank {advice.max_rank}"
    table.add_row("adapter", f"{kind}, rank {config['r']}, alpha {config['lora_alpha']}; {cap}")
    table.add_row(
        "target modules", literal(", ".join(f"{name} ×{count}" for name, count in advice.target_counts.items()))
    )
    table.add_row("sits on", literal(advice.where))
    table.add_row("trainable", f"{advice.trainable_params:,} parameters (PEFT's count), {share:.0%} of all-linear")
    table.add_row("covers", f"{advice.coverage:.0%} of the blocks' weights, {len(advice.modules)} modules")
    rate = training.basis
    if training.learning_rate is not None and training.low is not None and training.high is not None:
        span = "" if training.low == training.high else f" (range {training.low:g} to {training.high:g})"
        rate = f"{training.learning_rate:g}{span}: {rate}"
    table.add_row("learning rate", literal(rate))
    table.add_row("checked", "PEFT resolves every module's rank and alpha as planned")
    return table


def _savings(savings: Savings) -> Table:
    table = Table()
    table.add_column("what")
    for name in ("advised", "all-linear", "saved"):
        table.add_column(name, justify="right")
    table.add_column("how known", overflow="fold")
    for item in savings.items:
        how = f"{item.how}: {item.note}" if item.note else item.how
        shown = (f"{figure(value, '.3g')} {item.unit}" for value in (item.advised, item.all_linear))
        table.add_row(item.what, *shown, f"{item.share:.0%}", how)
    return table


def _groups(label: str, groups: Sequence[GroupMovement]) -> Table:
    table = Table(title=f"movement by {label}", title_justify="left")
    table.add_column(label)
    for name in ("displace-\nment %", "path %", "gradient %", "relative\n‖ΔW‖/‖W₀‖", "coher-\nence", "eff.\nrank"):
        table.add_column(name, justify="right")
    for group in groups:
        table.add_row(
            literal(group.group),
            _percent(group.displacement_share),
            _percent(group.path_share),
            _percent(group.gradient_share),
            figure(group.relative_displacement, ".2g"),
            figure(group.coherence, ".2g"),
            figure(group.effective_rank, ".1f"),
        )
    return table


def _spreads(movement: Movement) -> Table:
    windows = f"range over {movement.windows} windows of the run" if movement.windows else "too few rows for a range"
    table = Table(title=f"spread ({windows})", title_justify="left")
    table.add_column("of")
    for name in ("largest/smallest", "top 30 % hold", "Gini"):
        table.add_column(name, justify="right")
    for spread in movement.spreads:
        over = "layers" if spread.over == "layer" else "types"
        table.add_row(
            f"{spread.statistic}, {over}",
            _ranged(spread.max_over_min, ".2f"),
            _ranged(spread.top_30_share, ".2f"),
            _ranged(spread.gini, ".2f"),
        )
    return table


def _ranged(value: Ranged, form: str) -> str:
    span = "" if math.isnan(value.low) else f" ({figure(value.low, form)}–{figure(value.high, form)})"
    return f"{figure(value.value, form)}{span}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"
