"""Shapley values of a few parts: what each adds on average over all orders in which the parts could come."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from grpodyn.attribution import simultaneous
from grpodyn.attribution.simultaneous import Floats
from grpodyn.statistics import Interval

EXACT_UP_TO = 6
"""Parts up to which every coalition is evaluated."""

Coalition = frozenset[int]
Worth = Callable[[Coalition], Floats]
"""Outcome of each prompt, (n,), when only the players of a coalition carry their change."""


@dataclass(frozen=True)
class Values:
    """Shapley values of all players, as shares of the whole gain."""

    shares: tuple[Interval, ...]
    exact: bool
    """Whether all orders were taken; else they were sampled, and the intervals hold that too."""
    orders: int


def evaluations(players: int, orders: int) -> int:
    """Return how many coalitions are evaluated at most.

    >>> evaluations(4, 10), evaluations(8, 10)
    (16, 72)
    """
    return 2**players if players <= EXACT_UP_TO else 2 + _taken(orders) * (players - 1)


def unknown(players: int, orders: int) -> int:
    """Return how many at most, if no player, each but one alone, all but each of these, and all are known.

    >>> unknown(4, 10), unknown(8, 10)
    (8, 52)
    """
    # Alone and all others of all players but one, none and all: 2 · players.
    if players <= EXACT_UP_TO:
        return int(2**players) - 2 * players
    # An order ends with one alone, ..., all but one, all: of these the first and the last but one are known, except for
    # the one player of which neither is.
    return 2 + _taken(orders) * (players - 3)


def shapley(players: int, worth: Worth, level: float, orders: int, seed: int, sampled: bool = False) -> Values:
    """Return the Shapley values: exact up to 6 players, from sampled orders above.

    φ_p = Σ_S |S|!(P−|S|−1)!/P! · (v(S ∪ p) − v(S)), which add up to the whole gain.

    Args:
        players: P.
        worth: outcomes of a coalition.
        level: joint confidence.
        orders: sampled orders above 6 players, taken in pairs of an order and its reverse.
        seed: of the sampling.
        sampled: whether outcomes come from samples, as in `simultaneous.means`.

    Reference:
        Shapley (1953); orders in pairs: Mitchell et al., JMLR 23 (2022) 43.
    """
    gain = worth(frozenset(range(players))) - worth(frozenset())
    if players <= EXACT_UP_TO:
        values = np.column_stack([_exact(p, players, worth) for p in range(players)])
        found = simultaneous.ratios(values, gain, level, sampled=sampled)
        return Values(tuple(found.interval(p) for p in range(players)), True, math.factorial(players))
    chosen = _orders(players, orders, seed)
    marginals = np.stack([_marginals(order, worth) for order in chosen])
    return Values(tuple(_sampled(marginals, gain, level)), False, len(chosen))


def _exact(player: int, players: int, worth: Worth) -> Floats:
    others = [p for p in range(players) if p != player]
    total = np.zeros_like(worth(frozenset()))
    for size in range(players):
        weight = 1 / (players * math.comb(players - 1, size))
        for members in itertools.combinations(others, size):
            without = frozenset(members)
            total += weight * (worth(without | {player}) - worth(without))
    return total


def _taken(orders: int) -> int:
    """Return how many orders are taken: whole pairs, and no fewer than two."""
    return 2 * max(2, orders // 2)


def _orders(players: int, orders: int, seed: int) -> list[Sequence[int]]:
    rng = np.random.default_rng(seed)
    found: list[Sequence[int]] = []
    for _ in range(_taken(orders) // 2):
        order = [int(p) for p in rng.permutation(players)]
        found += [order, order[::-1]]
    return found


def _marginals(order: Sequence[int], worth: Worth) -> Floats:
    """Return what each player adds in one order, (prompt, player)."""
    before: Coalition = frozenset()
    found = np.zeros((worth(before).size, len(order)))
    for player in order:
        after = before | {player}
        found[:, player] = worth(after) - worth(before)
        before = after
    return found


def _sampled(marginals: Floats, gain: Floats, level: float) -> list[Interval]:
    """Join the two sources of error, prompts and orders; marginals are (order, prompt, player)."""
    over_prompts = simultaneous.ratios(marginals.mean(axis=0), gain, level)
    whole = float(gain.mean())
    # What an order and its reverse gain over two draws is not counted: it makes up for few orders of a skewed game.
    by_order = marginals.mean(axis=1) / whole
    error = by_order.std(axis=0, ddof=1) / np.sqrt(len(by_order))
    wide = float(student.isf((1 - level) / 2 / by_order.shape[1], len(by_order) - 1))
    found = []
    for p, value in enumerate(over_prompts.values):
        half = float(np.hypot(over_prompts.critical * over_prompts.errors[p], wide * error[p]))
        found.append(Interval(float(value), float(value) - half, float(value) + half, level))
    return found
