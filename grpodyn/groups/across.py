"""Group sizes as they were trained: what each reached, what that took, how steady it was, and where it moved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from grpodyn.arms.arm import Arm, differences
from grpodyn.arms.layers import LayerComparison, compare_layers
from grpodyn.arms.separation import Separation, adjusted, separation
from grpodyn.arms.settings import teaches
from grpodyn.groups.progress import LEVELS, Progress, progress

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

# They follow the group size or hold it; any other key that differs beside it is a second cause.
_FOLLOWS = frozenset({"grpo.num_generations", "grpo.generation_batch_size", "grpo.steps_per_generation"})
REACH = 0.8
"""The level that all arms are timed to lies at this share of the way from the lowest start to the lowest end."""


@dataclass(frozen=True)
class Measure:
    """One number of every run, by arm."""

    kind: str
    """`reached`, `needed`, `stability` or `stability, matched`: the family that p is adjusted over."""
    name: str
    values: tuple[tuple[float, ...], ...]
    """Of each arm's runs; nan where a run lacks it, inf where a level was never reached."""
    separations: tuple[Separation | None, ...]
    """Of each arm from the first (None first); None where runs lack the number or never reached the level."""

    def mean(self, arm: int) -> float:
        """Return the mean over an arm's runs."""
        return float(np.mean(self.values[arm]))


@dataclass(frozen=True)
class GroupArm:
    """Runs with one group size."""

    g: int
    runs: tuple[str, ...]


@dataclass(frozen=True)
class AcrossRuns:
    """Group sizes as they were trained."""

    arms: tuple[GroupArm, ...]
    solve_rate: str
    """What convergence is judged by."""
    level: float
    """The solve rate that `needed` is measured to; nan where the runs have none in common."""
    matched: tuple[tuple[float, float], ...]
    """Bands of solve rate over which the matched stability is averaged."""
    measures: tuple[Measure, ...]
    layers: LayerComparison
    warnings: tuple[str, ...]


def compare_group_sizes(runs: Sequence[tuple[Run, int]]) -> AcrossRuns:
    """Return runs with their group sizes, compared by size.

    Args:
        runs: each run with its recorded group size; at least two sizes.
    """
    by_size = sorted(runs, key=lambda pair: pair[1])
    arms = [
        Arm(f"G={g}", tuple(run for run, _ in members))
        for g, members in itertools.groupby(by_size, key=lambda pair: pair[1])
    ]
    sizes = [g for g, _ in itertools.groupby(by_size, key=lambda pair: pair[1])]
    each = [[progress(run, g) for run in arm.runs] for arm, g in zip(arms, sizes, strict=True)]
    everyone = [one for arm in each for one in arm]
    level, bands = _common(everyone)
    measures = [*_reached(each), *_needed(each, level), *_stability(each), *_matched(each, bands)]
    return AcrossRuns(
        arms=tuple(GroupArm(g, tuple(str(run.path) for run in arm.runs)) for arm, g in zip(arms, sizes, strict=True)),
        solve_rate=everyone[0].solve_rate.name,
        level=level,
        matched=tuple(bands),
        measures=tuple(_judged(measures)),
        layers=compare_layers(arms),
        warnings=tuple(_warnings([run for run, _ in by_size], everyone, arms, level, bands)),
    )


def _common(runs: Sequence[Progress]) -> tuple[float, list[tuple[float, float]]]:
    """Return a level that every run reached, and bands of solve rate that every run passed through."""
    rates = [run.solve_rate.value for run in runs]
    start, end = max(float(rate[0]) for rate in rates), min(float(rate.max()) for rate in rates)
    if end <= start:
        return math.nan, []
    edges = np.linspace(start, end, LEVELS + 1)
    bands = list(itertools.pairwise(edges.tolist()))
    usable = [band for band in bands if all(math.isfinite(run.matched(*band)["reward variance"]) for run in runs)]
    lowest = min(float(rate[0]) for rate in rates)
    return lowest + REACH * (end - lowest), usable


def _reached(each: Sequence[Sequence[Progress]]) -> list[Measure]:
    names = dict.fromkeys(name for arm in each for run in arm for name in run.final)
    return [
        _measure("reached", name, [[run.final.get(name, math.nan) for run in arm] for arm in each]) for name in names
    ]


def _needed(each: Sequence[Sequence[Progress]], level: float) -> list[Measure]:
    if math.isnan(level):
        return []
    needed = [[run.needed(level) for run in arm] for arm in each]
    axes = dict.fromkeys(axis for arm in needed for run in arm for axis in run)
    return [_measure("needed", axis, [[run.get(axis, math.nan) for run in arm] for arm in needed]) for axis in axes]


def _stability(each: Sequence[Sequence[Progress]]) -> list[Measure]:
    names = dict.fromkeys(name for arm in each for run in arm for name in run.stability)
    return [
        _measure("stability", name, [[run.stability.get(name, math.nan) for run in arm] for arm in each])
        for name in names
    ]


def _matched(each: Sequence[Sequence[Progress]], bands: Sequence[tuple[float, float]]) -> list[Measure]:
    if not bands:
        return []
    found = [[[run.matched(*band) for band in bands] for run in arm] for arm in each]
    names = dict.fromkeys(name for arm in found for run in arm for band in run for name in band)
    return [
        _measure(
            "stability, matched",
            name,
            [[float(np.mean([band.get(name, math.nan) for band in run])) for run in arm] for arm in found],
        )
        for name in names
    ]


def _measure(kind: str, name: str, values: Sequence[Sequence[float]]) -> Measure:
    first = values[0]
    separations = [separation(first, other) if np.isfinite([*first, *other]).all() else None for other in values[1:]]
    return Measure(kind, name, tuple(map(tuple, values)), (None, *separations))


def _judged(measures: Sequence[Measure]) -> list[Measure]:
    """Adjust p over each kind: all that a reader would pick the best of."""
    judged = []
    for kind in dict.fromkeys(measure.kind for measure in measures):
        family = [measure for measure in measures if measure.kind == kind]
        corrected = iter(adjusted([one for measure in family for one in measure.separations if one is not None]))
        judged += [
            replace(
                measure,
                separations=tuple(None if one is None else next(corrected) for one in measure.separations),
            )
            for measure in family
        ]
    return judged


def _warnings(
    runs: Sequence[Run],
    progresses: Sequence[Progress],
    arms: Sequence[Arm],
    level: float,
    bands: Sequence[tuple[float, float]],
) -> list[str]:
    found = []
    others = [one.key for one in differences(runs) if teaches(one.key) and one.key not in _FOLLOWS]
    if others:
        found.append(
            f"the runs differ in more than the group size ({', '.join(others)}): differences may come from that"
        )
    single = [arm.label for arm in arms if len(arm.runs) == 1]
    if single:
        found.append(f"{', '.join(single)}: one run, so no spread over seeds of its own")
    if not all(run.solve_rate.fixed_prompts for run in progresses):
        found.append(
            "some runs evaluated no fixed prompts while training (`evaluate.every`): the smoothed training reward "
            "stands in, whose prompts differ between runs"
        )
    if math.isnan(level):
        found.append("the runs passed through no common solve rate: nothing is matched, and no level is timed")
    elif not bands:
        found.append("the bands of solve rate hold too few steps of some runs: nothing is matched")
    return found
