"""Shapley values against their definition over all orders, and the sampled ones against the exact ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from grpodyn.attribution import shapley
from grpodyn.attribution.shapley import Coalition

PROMPTS = 300


def game(worth: Callable[[Coalition], float], seed: int = 0) -> Callable[[Coalition], np.ndarray]:
    size = np.random.default_rng(seed).uniform(0.5, 1.5, PROMPTS)
    return lambda coalition: size * worth(coalition)


def by_definition(players: int, worth: Callable[[Coalition], float]) -> np.ndarray:
    total = np.zeros(players)
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        for i, player in enumerate(order):
            total[player] += worth(frozenset(order[: i + 1])) - worth(frozenset(order[:i]))
    return total / len(orders)


def mixed(coalition: Coalition) -> float:
    """One that carries, two that need each other, two of which one is enough, one that harms."""
    both = 0.3 * ({1, 2} <= coalition)
    either = 0.2 * bool(coalition & {3, 4})
    return 0.5 * (0 in coalition) + both + either - 0.1 * (5 in coalition)


@pytest.mark.parametrize("players", [2, 3, 6])
def test_exact_values_are_the_mean_over_all_orders(players: int) -> None:
    found = shapley.shapley(players, game(mixed), 0.95, orders=10, seed=0)
    whole = mixed(frozenset(range(players)))
    expected = by_definition(players, mixed) / whole
    np.testing.assert_allclose([s.value for s in found.shares], expected, atol=1e-12)
    assert found.exact
    assert sum(s.value for s in found.shares) == pytest.approx(1.0)


def test_by_hand_two_that_need_each_other_share_alike() -> None:
    # v(1)=v(2)=0, v(12)=1: each adds all of it in one of two orders.
    found = shapley.shapley(2, game(lambda c: float(len(c) == 2)), 0.95, orders=2, seed=0)
    assert [s.value for s in found.shares] == pytest.approx([0.5, 0.5])


def test_sampled_values_hold_the_true_ones_and_add_up() -> None:
    players = 8
    found = shapley.shapley(players, game(mixed), 0.95, orders=40, seed=1)
    whole = mixed(frozenset(range(players)))
    assert not found.exact
    assert found.orders == 40
    for share, truth in zip(found.shares, by_definition(players, mixed) / whole, strict=True):
        assert share.low - 1e-9 <= truth <= share.high + 1e-9
    assert sum(s.value for s in found.shares) == pytest.approx(1.0)


@pytest.mark.slow
def test_sampled_intervals_cover_as_stated_or_more() -> None:
    def worth(coalition: Coalition) -> float:
        return float(np.tanh(sum(0.2 + 0.1 * p for p in coalition))) - 0.3 * ({0, 7} <= coalition)

    truth = by_definition(8, worth) / worth(frozenset(range(8)))
    hits = 0
    for seed in range(150):
        found = shapley.shapley(8, game(worth, seed), 0.95, orders=20, seed=seed)
        hits += all(s.low <= t <= s.high for s, t in zip(found.shares, truth, strict=True))
    assert hits / 150 >= 0.93


def noting(asked: set[Coalition]) -> Callable[[Coalition], np.ndarray]:
    inner = game(mixed)

    def worth(coalition: Coalition) -> np.ndarray:
        asked.add(coalition)
        return inner(coalition)

    return worth


def test_the_count_of_evaluations_is_what_is_said() -> None:
    for players in (3, 6, 8):
        asked: set[Coalition] = set()
        shapley.shapley(players, noting(asked), 0.95, orders=6, seed=0)
        assert len(asked) <= shapley.evaluations(players, 6)
        if players <= 6:
            assert len(asked) == 2**players


@pytest.mark.parametrize(("players", "orders"), [(3, 6), (4, 20), (6, 20), (7, 2), (7, 5), (8, 20)])
def test_what_the_tests_of_the_parts_have_told_is_counted_once(players: int, orders: int) -> None:
    """Each leading part alone and put back, none and all are known; of the last player, all others, neither."""
    every = frozenset(range(players))
    known = {frozenset(), every} | {c for p in range(players - 1) for c in (frozenset({p}), every - {p})}
    for seed in range(20):
        asked: set[Coalition] = set()
        shapley.shapley(players, noting(asked), 0.95, orders=orders, seed=seed)
        assert len(asked - known) <= shapley.unknown(players, orders)
        if players <= 6:
            assert len(asked - known) == shapley.unknown(players, orders) == 2**players - 2 * players
