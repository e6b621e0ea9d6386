"""What one run says about its group size, and about others under the policies that it went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grpodyn.groups.outcomes import Groups
from grpodyn.groups.table import GroupRow, Implied, OutcomeTable, sizes, total_row

HOLDS_FOR = (
    "these shares hold for the policies that this run went through: training with another group size visits other "
    "policies, whose groups may be dead more or less often"
)
PHASES = 3


@dataclass(frozen=True)
class ByOutcome:
    """The table by right and wrong alone, whatever else is rewarded."""

    outcome: str
    """What tells right from wrong."""
    groups: tuple[GroupRow, ...]


@dataclass(frozen=True)
class Phase:
    """Recorded groups of one part of the run; shares of groups, nan where nothing tells right from wrong."""

    first_step: int
    last_step: int
    groups: int
    dead: float
    """By total reward."""
    all_right: float
    all_wrong: float
    """By outcome."""


@dataclass(frozen=True)
class Returning:
    """What became of prompts that came back in a later step; shares of the returns, nan where there are none."""

    prompts: int
    """Prompts that came at least twice."""
    after_all_wrong: int
    """Returns of prompts whose group before was all wrong."""
    useful_after_all_wrong: float
    after_all_right: int
    useful_after_all_right: float


@dataclass(frozen=True)
class OneRun:
    """The group table of one run."""

    path: str
    run_id: str
    status: str
    recorded_g: int
    first_step: int
    last_step: int
    groups_seen: int
    prompts_seen: int
    left_out: int
    """Groups with a completion that was not scored."""
    groups: tuple[GroupRow, ...]
    """By total reward, on which advantages are made."""
    by_outcome: ByOutcome | None
    implied: Implied | None
    """By outcome; None where nothing tells right from wrong."""
    phases: tuple[Phase, ...]
    returning: Returning
    holds_for: str
    notes: tuple[str, ...]


def describe(
    groups: Groups, *, path: str, run_id: str, status: str, asked: Sequence[int], target: float, level: float = 0.95
) -> OneRun:
    """Return the table of a run's groups.

    Args:
        groups: what was recorded.
        path: where the run lies.
        run_id: its name for programs.
        status: of the run.
        asked: group sizes of the table; powers of two if empty.
        target: the greatest share of dead groups that is accepted.
        level: of the intervals.
    """
    shown = sizes(groups.g, asked)
    right = groups.right
    table = None if right is None else OutcomeTable(groups, right, level)
    by_outcome = None
    if table is not None and groups.outcome is not None:
        by_outcome = ByOutcome(groups.outcome, tuple(table.row(g) for g in shown))
    return OneRun(
        path=path,
        run_id=run_id,
        status=status,
        recorded_g=groups.g,
        first_step=int(groups.step.min()),
        last_step=int(groups.step.max()),
        groups_seen=len(groups),
        prompts_seen=len(np.unique(groups.prompt)),
        left_out=groups.left_out,
        groups=tuple(total_row(groups, table, g, level) for g in shown),
        by_outcome=by_outcome,
        implied=None if table is None else table.implied(target),
        phases=_phases(groups),
        returning=_returning(groups),
        holds_for=HOLDS_FOR,
        notes=(*groups.notes, *_notes(groups, shown)),
    )


def _notes(groups: Groups, shown: Sequence[int]) -> list[str]:
    found = []
    if groups.left_out:
        found.append(f"{groups.left_out} groups with a completion that was not scored are left out")
    if not groups.total_follows_outcome and max(shown) > groups.g:
        found.append(
            f"the total reward does not follow the outcome alone: beyond G={groups.g} only what larger groups cannot "
            "exceed is known of it"
        )
    right = groups.right
    if right is not None:
        spread = np.ptp(np.round(groups.reward, 6), axis=1) > 0
        mixed = (right > 0) & (right < groups.g)
        unseen, shaped = int((mixed & ~spread).sum()), int((~mixed & spread).sum())
        if unseen:
            found.append(f"{unseen} groups mix right and wrong but earn one total: parts of the reward cancel there")
        if shaped:
            found.append(
                f"{shaped} of {len(groups)} groups have spread in their total reward although all completions are "
                "right or all wrong: what they teach is not the outcome"
            )
    return found


def _phases(groups: Groups) -> tuple[Phase, ...]:
    steps = np.unique(groups.step)
    found = []
    for part in np.array_split(steps, min(PHASES, len(steps))):
        phase = groups.between(int(part[0]), int(part[-1]))
        right = phase.right
        known = right is not None
        found.append(
            Phase(
                first_step=int(part[0]),
                last_step=int(part[-1]),
                groups=len(phase),
                dead=float(np.mean(np.ptp(np.round(phase.reward, 6), axis=1) == 0)),
                all_right=float(np.mean(right == phase.g)) if known else float("nan"),
                all_wrong=float(np.mean(right == 0)) if known else float("nan"),
            )
        )
    return tuple(found)


def _returning(groups: Groups) -> Returning:
    """Follow each prompt from one visit to the next; visits in one step count as one batch, not as a return."""
    order = np.lexsort((groups.step, groups.prompt))
    prompt, step = groups.prompt[order], groups.step[order]
    comes_back = (prompt[1:] == prompt[:-1]) & (step[1:] > step[:-1])
    right = groups.right
    if right is None:
        return Returning(len(np.unique(prompt[1:][comes_back])), 0, float("nan"), 0, float("nan"))
    before, after = right[order][:-1][comes_back], right[order][1:][comes_back]
    useful = (after > 0) & (after < groups.g)

    def share(kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
        return float(useful[kept].mean()) if kept.any() else float("nan")

    wrong, solved = before == 0, before == groups.g
    return Returning(
        prompts=len(np.unique(prompt[1:][comes_back])),
        after_all_wrong=int(wrong.sum()),
        useful_after_all_wrong=share(wrong),
        after_all_right=int(solved.sum()),
        useful_after_all_right=share(solved),
    )
