"""Signs of a fault, and what looks like one without being one."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.forecasting.flags import fault_flags
from grpodyn.series import RewardSeries

N = 100


class Log:
    def __init__(self, held_out: np.ndarray | None = None, **values: np.ndarray) -> None:
        self._values = {name.replace("__", "/"): value for name, value in values.items()}
        self._held_out = held_out

    def values(self, name: str) -> np.ndarray:
        return self._values.get(name, np.empty(0))

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
