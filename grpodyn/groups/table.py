"""The table of group sizes: recorded groups re-sampled up to their size, and beyond it what the counts allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpodyn.groups import mixing, signal
from grpodyn.groups.bootstrap import PromptBootstrap
from grpodyn.groups.bounds import LikelihoodRegion, clustering
from grpodyn.groups.outcomes import Groups
from grpodyn.groups.resampling import chance_all, chance_of_no_spread, expected_over_subgroups
from grpodyn.statistics import Interval

Floats = NDArray[np.float64]
Basis = Literal["re-sampled", "mixing", "unknown"]

LARGEST = 256
"""Group sizes beyond it are not sought."""


@dataclass(frozen=True)
class GroupRow:
    """What groups of `g` would be like under the policies of the run; shares of groups, nan where unknown."""

    g: int
    dead: float
    """Share of groups without spread: all advantages are 0."""
    all_right: float
    all_wrong: float
    useful_per_1000: float
    """Of 1,000 completions, those in groups with spread."""
    dead_interval: Interval
    signal_share: float
    """Share of an endless group's gradient that passes: E √(k(g−k))/g over E √(p(1−p)); by outcome alone."""
    advantage_noise: float
    """Root mean square error of an advantage, in units of an endless group's advantages; by outcome alone."""
    basis: Basis
    """`re-sampled` from recorded groups (exact), `mixing` (maximum likelihood, beyond the recorded size), `unknown`."""


@dataclass(frozen=True)
class Implied:
    """The group size that a target implies."""

    target: float
    """Greatest share of dead groups that is accepted."""
    g: int | None
    """Smallest size that is expected to meet it; None if none up to `LARGEST` does."""
    at_least: int | None
    """Smallest size that the interval allows to meet it."""
    surely: int | None
    """Smallest size whose whole interval meets it."""


@dataclass(frozen=True)
class OutcomeTable:
    """Groups judged by their right and wrong completions.

    Up to the recorded size every number comes from re-sampling. Beyond it the distribution of solve rates over prompts
    is fitted without a shape, and the interval is that of all distributions which the counts do not refuse.
    """

    groups: Groups
    right: NDArray[np.int64]
    level: float = 0.95

    @cached_property
    def mixing(self) -> mixing.Mixing:
        """The distribution of solve rates."""
        return mixing.fit(self._counts)

    @cached_property
    def _counts(self) -> Floats:
        return np.bincount(self.right, minlength=self.groups.g + 1).astype(np.float64)

    @cached_property
    def _region(self) -> LikelihoodRegion:
        factor = clustering(self.groups.prompt, self.right)
        return LikelihoodRegion.at(self._counts, self.mixing, factor, self.level)

    @cached_property
    def _bootstrap(self) -> PromptBootstrap:
        return PromptBootstrap.over(self.groups.prompt)

    def all_right(self, g: int) -> float:
        """Return the share of groups of g that are all right."""
        return self._share(self.right, g) if g <= self.groups.g else self.mixing.all_right(g)

    def all_wrong(self, g: int) -> float:
        """Return the share of groups of g that are all wrong."""
        n = self.groups.g
        return self._share(n - self.right, g) if g <= n else self.mixing.all_wrong(g)

    def dead(self, g: int) -> Interval:
        """Return the share of groups of g without spread."""
        if g <= self.groups.g:
            return self._re_sampled(g)
        return Interval(self.mixing.dead(g), self._low(g), self._high(g), self.level)

    def row(self, g: int) -> GroupRow:
        """Return everything about groups of g."""
        dead = self.dead(g)
        endless = signal.endless_spread(self.mixing)
        return GroupRow(
            g=g,
            dead=dead.value,
            all_right=self.all_right(g),
            all_wrong=self.all_wrong(g),
            useful_per_1000=1000 * (1 - dead.value),
            dead_interval=dead,
            signal_share=min(1.0, self._spread(g) / endless) if endless > 0 else math.nan,
            advantage_noise=signal.advantage_noise(self.mixing, g),
            basis="re-sampled" if g <= self.groups.g else "mixing",
        )

    def implied(self, target: float) -> Implied:
        """Return the group size that keeps the share of dead groups at or below `target`.

        Larger groups are never dead more often, nor are the ends of their interval higher: each is found by halving.
        """
        return Implied(
            target=target,
            g=_smallest(lambda g: self._expected(g) <= target),
            at_least=_smallest(lambda g: self._low(g) <= target),
            surely=_smallest(lambda g: self._high(g) <= target),
        )

    def _expected(self, g: int) -> float:
        return self.all_right(g) + self.all_wrong(g)

    def _share(self, count: NDArray[np.int64], g: int) -> float:
        return float(chance_all(count, self.groups.g, g).mean())

    def _spread(self, g: int) -> float:
        if g > self.groups.g:
            return signal.passed_spread(self.mixing, g)
        return float(expected_over_subgroups(signal.group_spread(g), self.groups.g, g)[self.right].mean())

    def _re_sampled(self, g: int) -> Interval:
        n = self.groups.g
        return self._bootstrap.interval(chance_all(self.right, n, g) + chance_all(n - self.right, n, g), self.level)

    def _low(self, g: int) -> float:
        if g <= self.groups.g:
            return self._re_sampled(g).low
        return min(self.mixing.dead(g), self._region.least(lambda p: p**g + (1 - p) ** g))

    def _high(self, g: int) -> float:
        recorded = self._re_sampled(min(g, self.groups.g)).high
        if g <= self.groups.g:
            return recorded
        # A group of g is never dead more often than the smaller groups in it.
        greatest = min(recorded, self._region.greatest(lambda p: p**g + (1 - p) ** g))
        return max(self.mixing.dead(g), greatest)


def total_row(groups: Groups, outcomes: OutcomeTable | None, g: int, level: float = 0.95) -> GroupRow:
    """Return what groups of g would be like judged by the total reward, on which advantages are made.

    Beyond the recorded size that can be told only where the total reward follows the outcome.
    """
    if outcomes is not None and groups.total_follows_outcome:
        return outcomes.row(g)
    if g > groups.g:
        most = total_row(groups, outcomes, groups.g, level).dead_interval.high
        unknown = Interval(math.nan, 0.0, most, level)
        return GroupRow(g, math.nan, math.nan, math.nan, math.nan, unknown, math.nan, math.nan, "unknown")
    flat = chance_of_no_spread(groups.reward, g)
    dead = PromptBootstrap.over(groups.prompt).interval(flat, level)
    right = wrong = math.nan
    if groups.correct is not None:
        right, wrong = _alike(groups.reward, groups.correct, g), _alike(groups.reward, ~groups.correct, g)
    useful = 1000 * (1 - dead.value)
    return GroupRow(g, dead.value, right, wrong, useful, dead, math.nan, math.nan, "re-sampled")


def _alike(reward: Floats, among: NDArray[np.bool_], g: int) -> float:
    """Share of sub-groups of g that have one reward and lie in `among` whole.

    A sub-group of one reward can mix right and wrong, where parts of the reward cancel: it is in neither share.
    """
    # Every other completion gets a value of its own, so that none of them makes a group of two.
    alone = np.nanmax(reward) + 1 + np.arange(reward.size, dtype=np.float64).reshape(reward.shape)
    return float(chance_of_no_spread(np.where(among, reward, alone), g).mean())


def sizes(recorded: int, asked: Iterable[int] = ()) -> list[int]:
    """Return the group sizes of a table: what is asked, or powers of two up to four times the recorded size, and that.

    >>> sizes(6)
    [2, 4, 6, 8, 16]
    """
    chosen = list(asked)
    if not chosen:
        most = max(4 * recorded, 16)
        chosen = [2**i for i in range(1, 9) if 2**i <= most]
    return sorted({recorded, *chosen})


def _smallest(meets: Callable[[int], bool]) -> int | None:
    """Return the smallest group size from 2 to `LARGEST` that meets a condition which no larger size fails."""
    if not meets(LARGEST):
        return None
    too_small, enough = 1, LARGEST
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if meets(middle):
            enough = middle
        else:
            too_small = middle
    return enough
