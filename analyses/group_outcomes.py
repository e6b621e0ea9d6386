"""What became of the groups over a run: all right, all wrong, mixed, and how many had no spread to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.groups import outcomes
from grpodyn.groups.outcomes import DECIMALS
from grpodyn.series.thinning import block_ends, block_means, block_starts

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

MOST_PARTS = 60


@dataclass(frozen=True)
class GroupOutcomes:
    """Shares of groups in consecutive parts of a run."""

    run: str
    status: str
    g: int
    outcome: str | None
    """What tells right from wrong; None where nothing does."""
    last_step: tuple[int, ...]
    """Of each part."""
    groups: tuple[int, ...]
    all_right: tuple[float, ...]
    """nan where nothing tells right from wrong."""
    mixed: tuple[float, ...]
    all_wrong: tuple[float, ...]
    dead: tuple[float, ...]
    """Groups without spread in their total reward: all advantages are 0."""
    notes: tuple[str, ...]


class GroupOutcomesAnalysis(Analysis):
    """Shares of groups over time."""

    name: ClassVar[str] = "group_outcomes"
    title: ClassVar[str] = "What became of the groups over a run: all right, mixed, all wrong, and without spread"
    requires: ClassVar[tuple[str, ...]] = ("rollouts",)
    reference: ClassVar[str] = (
        "A group without spread has advantages of 0 and no gradient (GRPO, arXiv 2402.03300, eq. 3)."
    )

    def run(self, run: Run, **options: Any) -> GroupOutcomes:
        """Return the `GroupOutcomes` of a run.

        Args:
            run: an opened run.
            options: `outcome`, as `group_size` takes it.

        Raises:
            MissingDataError: the run holds no rollouts, or no whole group.
        """
        groups = outcomes.read(run, options.get("outcome"))
        order = np.argsort(groups.step, kind="stable")
        # Groups of one step stay together: a part ends where a step does.
        steps, counts = np.unique(groups.step[order], return_counts=True)
        part_of_step = np.repeat(np.arange(len(steps)), counts)
        starts = block_starts(len(steps), MOST_PARTS)
        first_group = np.searchsorted(part_of_step, starts)
        right = None if groups.right is None else groups.right[order]
        flat = np.ptp(np.round(groups.reward[order], DECIMALS), axis=1) == 0

        def share(condition: Any) -> tuple[float, ...]:
            return tuple(float(value) for value in block_means(np.asarray(condition, np.float64), first_group))

        unknown = (float("nan"),) * len(starts)
        return GroupOutcomes(
            run=run.path.name,
            status=run.status,
            g=groups.g,
            outcome=groups.outcome,
            last_step=tuple(int(step) for step in block_ends(steps.astype(np.float64), starts)),
            groups=tuple(int(count) for count in np.add.reduceat(counts, starts)),
            all_right=unknown if right is None else share(right == groups.g),
            mixed=unknown if right is None else share((right > 0) & (right < groups.g)),
            all_wrong=unknown if right is None else share(right == 0),
            dead=share(flat),
            notes=groups.notes,
        )
