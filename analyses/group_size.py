"""What the group size costs and gives: groups without spread, other sizes under the same policies, sizes as trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from grpodyn.analysis import Analysis
from grpodyn.errors import UsageError
from grpodyn.groups import outcomes
from grpodyn.groups.across import AcrossRuns, compare_group_sizes
from grpodyn.groups.one_run import OneRun, describe
from grpodyn.groups.sweep import Sweep, sweep

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

LARGEST = 1024
"""Beyond it the recorded groups say nothing, and a table of chances takes memory without end."""
TARGET = 0.4
"""Share of dead groups that a viability gate of a public recipe calls good."""


@dataclass(frozen=True)
class GroupSize:
    """One table a run, the comparison where sizes differ, and the command that would settle it."""

    runs: tuple[OneRun, ...]
    across: AcrossRuns | None
    """None if all runs have one group size."""
    sweep: Sweep


class GroupSizeAnalysis(Analysis):
    """Dead groups at the recorded and at other sizes; group sizes as trained."""

    name: ClassVar[str] = "group_size"
    title: ClassVar[str] = (
        "How many groups teach nothing, what other group sizes would give, and what trained ones gave"
    )
    requires: ClassVar[tuple[str, ...]] = ("rollouts",)
    reference: ClassVar[str] = (
        "Dead groups: E[p^G + (1 − p)^G]. Mixing distribution: Lindsay, Annals of Statistics 11 (1983) 86. "
        "Size of a group's gradient: arXiv 2607.00152."
    )

    def run(self, run: Run, **options: Any) -> GroupSize:
        """Return the `GroupSize` of `run` and of the runs in the option `others`.

        Other options: `outcome` (reward function whose greatest value means right), `sizes` (group sizes of the table),
        `target` (accepted share of dead groups), `first` and `last` (steps).

        Raises:
            MissingDataError: a run holds no rollouts, or none in the steps asked for.
            UnknownNameError: it has no reward function called `outcome`.
            UsageError: a size or a target that makes no sense.
        """
        asked, target = tuple(options.get("sizes", ())), float(options.get("target", TARGET))
        if any(not 2 <= g <= LARGEST for g in asked):
            raise UsageError(
                f"group sizes {asked}: a group compares completions of a prompt, expected from 2 to {LARGEST}"
            )
        if not 0 < target < 1:
            raise UsageError(f"target {target:g} is no share of groups; expected a number between 0 and 1, such as 0.4")
        runs = (run, *options.get("others", ()))
        read = [
            outcomes.read(one, options.get("outcome")).between(options.get("first"), options.get("last"))
            for one in runs
        ]
        tables = [
            describe(
                groups,
                path=str(one.path),
                run_id=str(one.manifest.run_id),
                status=one.status,
                asked=asked,
                target=target,
            )
            for one, groups in zip(runs, read, strict=True)
        ]
        pairs = [(one, groups.g) for one, groups in zip(runs, read, strict=True)]
        several = len({g for _, g in pairs}) > 1
        implied = tables[0].implied
        wanted = [implied.g] if implied is not None and implied.g is not None else []
        return GroupSize(
            tuple(tables), compare_group_sizes(pairs) if several else None, sweep(run, tables[0].recorded_g, wanted)
        )
