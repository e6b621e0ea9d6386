"""A table of a run's stages: how each ended, and what was known after it of those before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.cli.text import visible

if TYPE_CHECKING:
    from rich.table import Table

    from grpodyn.trace.stages import At, StageCourse


def stages_table(course: StageCourse) -> Table:
    """Return the table: a row before the first stage and one for each, a column for each that is tested again."""
    from rich.box import SIMPLE
    from rich.table import Table

    measured = [at for at in (course.before, *course.after) if at is not None]
    retested = list(dict.fromkeys(name for at in measured for name in at.retested))
    texts = list(dict.fromkeys(name for at in measured for name in at.perplexity))
    table = Table(
        box=SIMPLE,
        pad_edge=False,
        title="stages; accuracy at T=1 and perplexity after each",
        title_justify="left",
    )
    for column in ("stage", "steps", "ended"):
        table.add_column(column)
    for name in retested:
        table.add_column(visible(name), justify="right")
    for name in texts:
        table.add_column(visible(f"perplexity {name}"), justify="right")
    table.add_row("before", "", "", *_values(course.before, retested, texts))
    for stage, at in zip(course.stages, course.after, strict=True):
        ended = (stage.outcome or "not yet").replace("_", " ")
        span = f"{stage.start}–{'' if stage.end is None else stage.end}"
        table.add_row(visible(stage.name), span, visible(ended), *_values(at, retested, texts))
    return table


def _values(at: At | None, retested: list[str], texts: list[str]) -> list[str]:
    if at is None:
        return ["–"] * (len(retested) + len(texts))
    wanted = [*(at.retested.get(name) for name in retested), *(at.perplexity.get(name) for name in texts)]
    return ["–" if value is None else f"{value:.3f}" for value in wanted]
