"""Signs of a fault, and what looks like one without being one."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.forecasting.flags import fault_flags
from grpodyn.series import RewardSeries

N = 100


class Log:
    def __init__(
        self, held_out: np.ndarray | None = None, weights: dict[str, float] | None = None, **values: np.ndarray
    ) -> None:
        self._weights = weights or {}
        self._values = {name.replace("__", "/"): value for name, value in values.items()}
        self._held_out = held_out

    def values(self, name: str) -> np.ndarray:
        return self._values.get(name, np.empty(0))

    def weights(self) -> dict[str, float]:
        return self._weights

    def held_out(self) -> tuple[np.ndarray, np.ndarray] | None:
        return None if self._held_out is None else (np.linspace(0, N, len(self._held_out)).astype(int), self._held_out)


def series(level: float = 0.4, end: float | None = None) -> RewardSeries:
    value = np.linspace(level, level if end is None else end, N)
    return RewardSeries("reward", np.arange(1, N + 1), value, bounds=(0.0, 1.0))


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (Log(frac_reward_zero_std=np.linspace(0.1, 0.9, N)), "groups without spread"),
        (Log(entropy=np.geomspace(1.2, 0.02, N)), "entropy fell"),
        (Log(completions__clipped_ratio=np.full(N, 0.3)), "cut off"),
        (Log(kl=np.r_[np.full(N - 5, 0.01), np.full(5, 2.0)]), "KL reached"),
    ],
)
def test_signs(log: Log, said: str) -> None:
    flags = fault_flags(log, series())
    assert len(flags) == 1
    assert said in flags[0]


def test_training_reward_that_leaves_held_out_accuracy_behind() -> None:
    flags = fault_flags(Log(held_out=np.full(11, 0.35)), series(0.3, 0.8))
    assert "held-out" in flags[0]
    assert fault_flags(Log(held_out=np.linspace(0.3, 0.8, 11)), series(0.3, 0.8)) == ()


def test_a_solved_task_has_dead_groups_and_low_entropy_and_no_fault() -> None:
    log = Log(frac_reward_zero_std=np.linspace(0.1, 0.95, N), entropy=np.geomspace(0.8, 0.002, N))
    assert fault_flags(log, series(0.5, 0.99)) == ()


def test_a05_kl_that_is_not_computed_is_no_fault() -> None:
    assert fault_flags(Log(kl=np.empty(0)), series()) == ()
    assert fault_flags(Log(kl=np.zeros(N)), series()) == ()


def test_a09_entropy_that_starts_low_and_stays_is_no_collapse() -> None:
    assert fault_flags(Log(entropy=np.full(N, 0.02)), series()) == ()


def test_a17_gradient_spikes_alone_are_no_sign() -> None:
    assert fault_flags(Log(grad_norm=np.r_[np.ones(N - 5), np.full(5, 1e3)]), series()) == ()


def test_nothing_logged_is_no_fault() -> None:
    assert fault_flags(Log(), series()) == ()


DYING = {"frac_reward_zero_std": np.linspace(0.2, 0.9, N), "entropy": np.geomspace(1.0, 0.01, N)}


def unbounded(end: float, metric: str = "reward") -> RewardSeries:
    """A reward that saturates at `end`; nothing says what it can reach."""
    return RewardSeries(metric, np.arange(1, N + 1), end * (1 - np.exp(-np.arange(1, N + 1) / 10)))


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_signs_are_the_same_at_any_scale_of_the_reward(scale: float) -> None:
    # It stands still at .6 of what it can reach.
    assert len(fault_flags(Log(**DYING), unbounded(0.6 * scale))) == 2


@pytest.mark.parametrize(
    ("weights", "end", "signs"),
    [
        # The top of an exact match at weight 3 is 3: .97 of it is solved, a third of it is not.
        ({"exact_match": 3.0}, 2.9, 0),
        ({"exact_match": 3.0}, 0.97, 2),
        # Two rewards of weight 1: the one that is reached is half of what there is.
        ({"exact_match": 1.0, "mine": 1.0}, 0.97, 2),
        # A penalty gives 0 at best, and adds nothing to the top.
        ({"exact_match": 1.0, "soft_overlong": 1.0}, 0.97, 0),
        # Nothing is known of the reward, and it is at 1 of 1, as most rewards are.
        ({}, 0.97, 0),
        # It exceeds what its function should give: its top is not known.
        ({"mine": 1.0}, 2.9, 2),
    ],
)
def test_solved_is_near_the_top_that_the_weights_give(weights: dict[str, float], end: float, signs: int) -> None:
    assert len(fault_flags(Log(weights=weights, **DYING), unbounded(end))) == signs


def test_the_weights_are_those_of_the_reward_alone() -> None:
    # Another metric that ends at .97 of 1 is near its top, whatever the weights of the reward.
    log = Log(weights={"exact_match": 3.0}, **DYING)
    assert fault_flags(log, unbounded(0.97, "rewards/exact_match/mean")) == ()
