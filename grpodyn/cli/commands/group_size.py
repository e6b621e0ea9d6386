"""`grpodyn group-size`: how many groups teach nothing, and what other group sizes would give or gave."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import figure, literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from grpodyn.groups.one_run import OneRun


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run directories; several are compared by size.")],
    target: Annotated[float, typer.Option(help="Share of dead groups that you accept.")] = 0.4,
    sizes: Annotated[
        str | None, typer.Option(metavar="2,4,…", help="Group sizes of the table; powers of two if not given.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="REWARD", help="Reward function whose greatest value means right.")
    ] = None,
    first: Annotated[int | None, typer.Option(metavar="STEP", help="Leave out groups of earlier steps.")] = None,
    last: Annotated[int | None, typer.Option(metavar="STEP", help="Leave out groups of later steps.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say how many groups teach nothing, and what another group size would give under this run's policies.

    Recorded groups are re-sampled to smaller sizes exactly; larger ones are foretold as far as the counts allow.
    Several runs with different sizes are compared as they were trained.

    Example: grpodyn group-size runs/g8 --target 0.3
    """
    from grpodyn import registry
    from grpodyn.cli.lookup import find_runs
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    opened = [open_run(path) for path in find_runs(runs)]
    result = registry.analysis("group_size").run(
        opened[0],
        others=opened[1:],
        outcome=outcome,
        sizes=_numbers(sizes),
        target=target,
        first=first,
        last=last,
    )
    if as_json:
        # The first run's keys stand at the top, as a program that asks about one run expects them.
        typer.echo(strict_json.dumps({**asdict(result.runs[0]), **asdict(result)}, indent=2))
        return
    _show(result)


def _numbers(text: str | None) -> tuple[int, ...]:
    from grpodyn.errors import UsageError

    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--sizes {text!r}: expected group sizes with commas between them, such as 2,4,8") from None


def _show(result: Any) -> None:
    from rich.console import Console

    console = Console()
    for run in result.runs:
        _show_run(console, run)
    if result.across is not None:
        _show_across(console, result.across)
        return
    console.print()
    console.print("What a real sweep would tell, and re-sampling cannot:")
    for line in result.sweep.commands:
        console.print(literal(f"  {line}"), soft_wrap=True)
    for note in result.sweep.notes:
        console.print(literal(f"• {note}"))


def _show_run(console: Console, run: OneRun) -> None:
    console.print(
        literal(
            f"{run.path}: {run.groups_seen:,} groups of {run.recorded_g}, {run.prompts_seen:,} prompts, steps "
            f"{run.first_step}–{run.last_step}"
        )
    )
    outcome = run.by_outcome
    if outcome is not None:
        same = [row.dead for row in outcome.groups] == [row.dead for row in run.groups]
        judged = "right or wrong" if same else f"right or wrong by {outcome.outcome}, whatever else is rewarded"
        console.print(_table(outcome.groups, judged))
        if not same:
            console.print(_table(run.groups, "by total reward, on which advantages are made"))
    else:
        console.print(_table(run.groups, "by total reward"))
    for sentence in _sentences(run):
        console.print(literal(f"• {sentence}"))


def _table(rows: Any, title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("G", "dead", "95 %", "right", "wrong", "useful", "signal", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        ends = f"{figure(row.dead_interval.low)}–{figure(row.dead_interval.high)}"
        shares = [figure(value) for value in (row.dead, row.all_right, row.all_wrong)]
        rest = [figure(row.useful_per_1000, ".0f"), figure(row.signal_share, ".2f"), figure(row.advantage_noise, ".2f")]
        mark = "" if row.basis == "re-sampled" else "*"
        table.add_row(f"{row.g}{mark}", shares[0], ends, *shares[1:], *rest)
    return table


def _sentences(run: OneRun) -> list[str]:
    said = [
        "dead: no spread, nothing to learn from; right, wrong: dead because all are; useful: of 1,000 completions, "
        "those in groups with spread; signal: share of an endless group's gradient that passes; noise: error of an "
        "advantage",
        f"* larger than the recorded {run.recorded_g}: fitted solve rates, and what the counts do not refuse",
        run.holds_for,
    ]
    implied = run.implied
    if implied is not None:
        if implied.g is None:
            said.append(f"no group size up to 256 is expected to keep dead groups at {implied.target:.0%} or below")
        else:
            sure = "no size up to 256 surely" if implied.surely is None else f"G={implied.surely} surely"
            told = f"G={implied.g} is expected to do, G={implied.at_least} might, {sure} does"
            if implied.g == implied.at_least == implied.surely:
                told = f"G={implied.g} does"
            said.append(f"at most {implied.target:.0%} dead groups: {told}")
    said += [
        f"steps {phase.first_step}–{phase.last_step}: {phase.dead:.0%} dead ({figure(phase.all_right, '.0%')} all "
        f"right, {figure(phase.all_wrong, '.0%')} all wrong)"
        for phase in run.phases
    ]
    back = run.returning
    if back.prompts:
        said.append(
            f"{back.prompts:,} prompts came back: {figure(back.useful_after_all_wrong, '.0%')} of "
            f"{back.after_all_wrong} groups were useful after an all-wrong one, "
            f"{figure(back.useful_after_all_right, '.0%')} of {back.after_all_right} after an all-right one"
        )
    return [*said, *run.notes]


def _show_across(console: Console, across: Any) -> None:
    from rich.table import Table

    table = Table(title="group sizes as trained (means over seeds)", title_justify="left")
    table.add_column("")
    for arm in across.arms:
        table.add_column(f"G={arm.g} (n={len(arm.runs)})", justify="right")
    judged = any(len(arm.runs) > 1 for arm in across.arms)
    for kind in dict.fromkeys(measure.kind for measure in across.measures):
        heading = kind if kind != "needed" else f"needed for {across.solve_rate} {across.level:.3f}"
        table.add_row(literal(heading), style="bold")
        for measure in (one for one in across.measures if one.kind == kind):
            table.add_row(literal(f"  {measure.name}"), *(_cell(measure, i) for i in range(len(across.arms))))
    console.print(table)
    if judged:
        first = f"G={across.arms[0].g}"
        told = f"• ≠: told apart from {first} over seeds (t test, p < .05, by Holm over the figures of its kind)"
        console.print(literal(f"{told}; without it, not separable. --json has each p and what could have been seen"))
    for sentence in (*across.warnings, *across.layers.notes):
        console.print(literal(f"• {sentence}"))


def _cell(measure: Any, arm: int) -> Text:
    separation = measure.separations[arm]
    apart = separation is not None and separation.separable
    return literal(f"{'≠ ' if apart else ''}{figure(measure.mean(arm), '.4g')}")
