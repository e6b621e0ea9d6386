"""What the group size costs and gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpodyn.figures.text import counted
from grpodyn.reporting.blocks import Block, Command, Sentence, Table, Verdict
from grpodyn.reporting.numbers import percent, shown

MUCH = 0.5


def group_size(found: Any) -> Block:
    """Say whether the group size is right; `found` is a `GroupSize` of one run."""
    run = found.runs[0]
    dead = next(row for row in run.groups if row.g == run.recorded_g)
    answer = f"Of groups of {run.recorded_g}, {percent(dead.dead)} have no spread and teach nothing"
    implied = run.implied
    if implied is not None:
        target = percent(implied.target)
        size = (
            f"no size up to 256 is expected to keep it at {target}"
            if implied.g is None
            else (f"G={implied.g} is expected to keep it at {target}")
        )
        answer += f"; {size}, under the policies of this run"
    return Verdict(
        "Is the group size right?",
        f"{answer}.",
        "warning" if dead.dead > MUCH else "good" if dead.dead <= MUCH else "unknown",
        because=(run.holds_for, *run.notes),
    )


def group_table(found: Any) -> Iterator[Block]:
    """Tabulate what other group sizes would give; `found` is a `GroupSize` of one run."""
    run = found.runs[0]
    columns = ("G", "dead", "95 %", "all right", "all wrong", "useful of 1,000", "signal", "noise")
    rows = tuple(
        (
            f"{row.g}" if row.basis == "re-sampled" else f"{row.g} *",
            percent(row.dead),
            f"{percent(row.dead_interval.low)} to {percent(row.dead_interval.high)}",
            percent(row.all_right),
            percent(row.all_wrong),
            shown(row.useful_per_1000, ".0f"),
            shown(row.signal_share, ".2f"),
            shown(row.advantage_noise, ".2f"),
        )
        for row in run.groups
    )
    yield Table(f"Group sizes under the policies of this run; * beyond the recorded {run.recorded_g}", columns, rows)
    back = run.returning
    if back.prompts:
        yield Sentence(
            f"{counted(back.prompts, 'prompt')} came back: of {counted(back.after_all_wrong, 'group')} after "
            f"an all-wrong one {percent(back.useful_after_all_wrong)} useful, of "
            f"{counted(back.after_all_right, 'group')} after an all-right one {percent(back.useful_after_all_right)}."
        )
    if found.sweep.commands:
        yield Sentence("What training other sizes would tell, and re-sampling cannot:")
    for command in found.sweep.commands:
        yield Command(command)
    for note in found.sweep.notes:
        yield Sentence(note)


def trained_sizes(found: Any) -> Iterator[Block]:
    """Compare group sizes as they were trained; `found` is a `GroupSize` of several runs."""
    across = found.across
    if across is None:
        yield Sentence("all runs have one group size, so sizes are not compared as trained", missing=True)
        return
    columns = ("measure", *(f"G={arm.g} (n={len(arm.runs)})" for arm in across.arms), "against the first")
    rows = tuple(
        (
            f"{one.kind}: {one.name}",
            *(shown(one.mean(place), ".4g") for place in range(len(across.arms))),
            "; ".join(dict.fromkeys("not in all runs" if s is None else s.short for s in one.separations[1:])),
        )
        for one in across.measures
    )
    yield Table("Group sizes as trained, means over seeds", columns, rows)
    for warning in (*across.warnings, *across.layers.notes):
        yield Sentence(warning)
