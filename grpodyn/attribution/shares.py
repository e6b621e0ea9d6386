"""What each part of a partition holds of the gain, from outcomes per prompt, with intervals that hold all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grpodyn.attribution import simultaneous
from grpodyn.attribution.asking import Outcomes
from grpodyn.attribution.parts import Part
from grpodyn.attribution.simultaneous import Floats
from grpodyn.statistics import Interval


@dataclass(frozen=True)
class Pair:
    """Outcomes of one part's two tests."""

    keep_only: Outcomes
    """Base weights, and this part alone with its change."""
    put_back: Outcomes
    """Trained weights, and this part alone without its change."""


@dataclass(frozen=True)
class PartShare:
    """One part; accuracies are those measured, shares are of the whole gain (1 is all of it)."""

    part: Part
    keep_only: Interval
    """Accuracy."""
    put_back: Interval
    """Accuracy."""
    kept: Interval
    """(keep-only − base) / (trained − base): whether the part is enough."""
    lost: Interval
    """(trained − put-back) / (trained − base): whether the part is needed."""
    share: Interval
    """Half of kept + lost: the part's Shapley value against everything else taken as one."""


@dataclass(frozen=True)
class Partition:
    """Parts that tile the change, and how their effects add up."""

    name: str
    shares: tuple[PartShare, ...]
    kept_sum: Interval
    """Sum of the kept shares: below 1 parts need each other, above 1 they can stand in for each other."""
    lost_sum: Interval


def partition(
    name: str,
    pairs: Mapping[Part, Pair],
    base: Outcomes,
    final: Outcomes,
    level: float,
    sampled: bool = False,
) -> Partition:
    """Return the shares of all parts; all intervals of shares (and all of accuracies) hold at once with `level`."""
    parts = list(pairs)
    keep = np.column_stack([pairs[part].keep_only.value for part in parts])
    put = np.column_stack([pairs[part].put_back.value for part in parts])
    accuracies = simultaneous.means(np.hstack([keep, put]), level, sampled=sampled)
    columns = _effects(keep, put, base, final)
    shares = simultaneous.ratios(columns, final.value - base.value, level, sampled=sampled)
    n = len(parts)
    found = tuple(
        PartShare(
            part=part,
            keep_only=accuracies.interval(i),
            put_back=accuracies.interval(n + i),
            kept=shares.interval(i),
            lost=shares.interval(n + i),
            share=shares.interval(2 * n + i),
        )
        for i, part in enumerate(parts)
    )
    return Partition(name, found, shares.interval(3 * n), shares.interval(3 * n + 1))


def gain(base: Outcomes, final: Outcomes, level: float, sampled: bool = False) -> Interval:
    """Return the mean of trained − base over prompts."""
    return simultaneous.means((final.value - base.value)[:, None], level, sampled=sampled).interval(0)


def _effects(keep: Floats, put: Floats, base: Outcomes, final: Outcomes) -> Floats:
    """Columns: kept, lost and their mean for each part, then the two sums."""
    kept = keep - base.value[:, None]
    lost = final.value[:, None] - put
    sums = [kept.sum(axis=1), lost.sum(axis=1)]
    return np.hstack([kept, lost, (kept + lost) / 2, *(column[:, None] for column in sums)])


def of_accuracies(outcomes: Sequence[Outcomes], level: float, sampled: bool = False) -> list[Interval]:
    """Return the accuracies of some states, with intervals that hold at once."""
    found = simultaneous.means(np.column_stack([o.value for o in outcomes]), level, sampled=sampled)
    return [found.interval(i) for i in range(len(outcomes))]


def of_gain(
    outcomes: Sequence[Outcomes], base: Outcomes, final: Outcomes, level: float, sampled: bool = False
) -> list[Interval]:
    """Return which share of the gain each state has, with intervals that hold at once."""
    kept = np.column_stack([o.value - base.value for o in outcomes])
    found = simultaneous.ratios(kept, final.value - base.value, level, sampled=sampled)
    return [found.interval(i) for i in range(len(outcomes))]
