"""Gradient that passes and noise of advantages, derived by hand at one half."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grpodyn.groups import signal
from grpodyn.groups.mixing import GRID, Mixing
from grpodyn.recording.rollouts import advantages


def all_at(p: float) -> Mixing:
    weights = np.zeros(len(GRID))
    weights[int(np.argmin(np.abs(GRID - p)))] = 1
    return Mixing(weights)


def test_pairs_at_one_half() -> None:
    # k = 1 with chance ½: √(1·1)/2 = ½; else 0. So ¼ of an endless group's ½.
    assert signal.passed_spread(all_at(0.5), 2) == pytest.approx(0.25)
    assert signal.endless_spread(all_at(0.5)) == pytest.approx(0.5)
    # Right in half of the cases (±1, as it should be), else 0 instead of ±1: √½.
    assert signal.advantage_noise(all_at(0.5), 2) == pytest.approx(math.sqrt(0.5))


def test_the_spread_is_the_group_deviation_that_advantages_are_made_with() -> None:
    # With advantages over the population's deviation, Σ|A|/(2G) = √(k(G−k))/G.
    rewards = np.array([1.0, 1, 1, 0, 0, 0, 0, 0])
    given = advantages(rewards, 8, "group") * math.sqrt(8 / 7)
    assert np.abs(given).sum() / 16 == pytest.approx(signal.group_spread(8)[3], rel=1e-3)


def test_noise_falls_and_signal_rises_with_the_group() -> None:
    noise = [signal.advantage_noise(all_at(0.3), g) for g in (2, 4, 8, 16, 64)]
    passed = [signal.passed_spread(all_at(0.3), g) for g in (2, 4, 8, 16, 64)]
    assert noise == sorted(noise, reverse=True)
    assert passed == sorted(passed)
    assert passed[-1] == pytest.approx(signal.endless_spread(all_at(0.3)), rel=0.02)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_prompts_that_teach_nothing_have_no_noise(p: float) -> None:
    assert math.isnan(signal.advantage_noise(all_at(p), 8))
    assert signal.passed_spread(all_at(p), 8) == 0


def test_noise_equals_a_simulation() -> None:
    rng, p, g = np.random.default_rng(0), GRID[70], 6
    rewards = (rng.random((200_000, g)) < p).astype(float)
    mean, deviation = rewards.mean(1, keepdims=True), rewards.std(1, keepdims=True)
    small = np.where(deviation > 0, (rewards - mean) / np.where(deviation > 0, deviation, 1), 0)
    endless = (rewards - p) / math.sqrt(p * (1 - p))
    assert signal.advantage_noise(all_at(p), g) == pytest.approx(np.sqrt(((small - endless) ** 2).mean()), rel=0.01)
