"""The marginal rule."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grpodyn.forecasting import stopping
from grpodyn.forecasting.stopping import Decision, StopRule, look
from grpodyn.series import RewardSeries

Make = Callable[..., RewardSeries]


def decide(series: RewardSeries, **options: Any) -> tuple[Decision | None, StopRule]:
    rule = StopRule(series.max_steps, **options)
    for step, value in zip(series.step.tolist(), series.value.tolist(), strict=True):
        decision = rule.add(step, value)
        if decision is not None:
            return decision, rule
    return None, rule


def test_a_saturating_run_is_stopped_with_little_lost(exponential: Make) -> None:
    series = exponential(n=200, tau=15.0)
    decision, _ = decide(series)
    assert decision is not None
    lost = 0.6 * np.exp(-(decision.step - 1) / 15) - 0.6 * np.exp(-199 / 15)
    assert lost < 0.02
    assert decision.step < 140
    assert decision.saved_steps == 200 - decision.step
    assert decision.left is not None
    assert decision.epsilon == pytest.approx(0.02 * 0.8, rel=0.05)


@pytest.mark.slow
def test_a_smaller_epsilon_stops_later(exponential: Make) -> None:
    series = exponential(n=250, tau=20.0, sd=0.01)
    early, late = decide(series, epsilon=0.05)[0], decide(series, epsilon=0.005)[0]
    assert early is not None
    assert late is None or late.step > early.step


def test_a_late_riser_is_not_stopped_before_its_rise(curves: ModuleType) -> None:
    for seed in range(1000, 1003):
        curve = curves.simulate("late_riser", seed)
        decision, _ = decide(RewardSeries("reward", curve.step, curve.value, max_steps=curve.max_steps))
        assert decision is None or decision.step >= curve.rise_begins


def test_a_line_and_a_flat_run_go_on() -> None:
    step = np.arange(1, 121)
    noise = 0.02 * np.random.default_rng(5).standard_normal(120)
    for value in (0.1 + 0.004 * step + noise, 0.4 + noise):
        assert decide(RewardSeries("reward", step, value, max_steps=120))[0] is None


def test_a_collapse_is_no_reason_for_the_marginal_rule() -> None:
    value = np.concatenate([np.linspace(0.2, 0.8, 60), np.full(20, 0.8), np.linspace(0.8, 0.2, 60)])
    value = value + 0.01 * np.random.default_rng(6).standard_normal(140)
    found = look(RewardSeries("reward", np.arange(1, 141), value, max_steps=300))
    assert not found.holds
    assert "fallen" in found.why


def test_a_sign_of_a_fault_stands_in_the_way(exponential: Make) -> None:
    series = exponential(n=150, tau=12.0, max_steps=200)
    assert look(series).holds
    found = look(series, flags=("30% of completions are cut off",))
    assert not found.holds
    assert "cut off" in found.why


def test_rows_of_before_a_resume_count_without_being_looked_at(exponential: Make) -> None:
    series = exponential(n=200, tau=12.0)
    rule = StopRule(200)
    for step, value in zip(series.step[:120].tolist(), series.value[:120].tolist(), strict=True):
        rule.recall(step, value)
    assert rule.taken == 0
    rule.add(121, float(series.value[120]))
    assert rule.taken == 1
    assert rule.last is not None
    assert rule.last.holds


def test_missing_rewards_are_passed_over(exponential: Make) -> None:
    rule = StopRule(100)
    assert rule.add(1, float("nan")) is None
    assert rule.taken == 0


def test_looks_grow_with_the_logarithm_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def counted(series: RewardSeries, *_: object) -> stopping.Look:
        lengths.append(len(series))
        return stopping.Look(int(series.step[-1]), False, "counted", None, 0.01)

    monkeypatch.setattr(stopping, "look", counted)
    rule = StopRule(20_000)
    for step in range(1, 20_001):
        rule.add(step, 0.5)
    # ln(20,000 / 60) / ln 1.05 ≈ 119, and every third point below 60.
    assert len(lengths) < 150
    # A fit never sees more than a fixed number of blocks, so each look costs the same.


@pytest.mark.parametrize("value", [-1.0, 2.0, -1 / 3])
def test_a_constant_reward_outside_of_0_and_1_is_no_rise(value: float) -> None:
    # 400 rows: means of blocks of -1/3 differ by their rounding.
    rule = StopRule(500)
    assert all(rule.add(step, value) is None for step in range(1, 401))
    assert rule.last is not None
    assert "no rise has been identified" in rule.last.why
