"""Metrics of arms over steps."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.arms.curves import Curve
from grpodyn.arms.metrics import compare_metrics


def runs(level, seeds: int, noise: float, steps: int = 100, seed: int = 0) -> list[Curve]:
    """Return curves of a level over steps, each with an offset of its seed."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1)
    return [
        Curve(f"s{i}", step, np.array([level(s) for s in step]) + rng.normal(0, noise) + rng.normal(0, 0.001, steps))
        for i in range(seeds)
    ]


def test_an_arm_that_leaves_is_dated_to_the_window_in_which_it_does() -> None:
    a = runs(lambda step: 0.5, 4, 0.01)
    b = runs(lambda step: 0.5 if step <= 50 else 0.8, 4, 0.01, seed=1)
    (one,) = compare_metrics([("a", [a]), ("b", [b])], ["reward"]).comparisons
    assert one.separation.separable
    assert one.since == 60  # the last step of the first of the windows of ten that differs
    assert (one.reference_end.value, one.arm_end.value) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.8, abs=0.02))


def test_an_arm_that_comes_back_has_not_left() -> None:
    a = runs(lambda step: 0.5, 4, 0.01)
    b = runs(lambda step: 0.9 if 20 < step <= 60 else 0.5, 4, 0.01, seed=1)
    (one,) = compare_metrics([("a", [a]), ("b", [b])], ["reward"]).comparisons
    assert not one.separation.separable
    assert one.since is None


def test_evaluations_at_few_steps_are_looked_at_step_by_step() -> None:
    def at(values: tuple[float, ...], offset: float) -> Curve:
        return Curve("s", np.array([0, 50, 100]), np.array(values) + offset)

    a = [at((0.1, 0.5, 0.6), offset) for offset in (0.0, 0.01)]
    b = [at((0.1, 0.5, 0.9), offset) for offset in (0.0, 0.01)]
    found = compare_metrics([("a", [a]), ("b", [b])], ["heldout/accuracy"])
    ((_, (band, _)),) = found.bands
    assert band.last_step == (0, 50, 100)
    assert found.comparisons[0].since == 100


def test_p_is_adjusted_over_all_that_is_compared_at_once() -> None:
    a, b = runs(lambda step: 0.5, 3, 0.02), runs(lambda step: 0.58, 3, 0.02, seed=1)
    (alone,) = compare_metrics([("a", [a]), ("b", [b])], ["m"]).comparisons
    many = compare_metrics([("a", [a] * 5), ("b", [b] * 5)], list("mnopq")).comparisons
    assert alone.separation.p < 0.05
    assert many[0].separation.p == pytest.approx(5 * alone.separation.p)


def test_a_metric_that_an_arm_lacks_is_missing_not_equal() -> None:
    a = runs(lambda step: 0.5, 2, 0.01)
    found = compare_metrics([("a", [a, a]), ("b", [a, []])], ["reward", "kl"])
    assert found.missing == ("kl",)
    assert [one.metric for one in found.comparisons] == ["reward"]


def test_curves_that_share_no_steps_are_not_compared() -> None:
    early = Curve("a", np.array([1, 2]), np.array([0.1, 0.2]))
    late = Curve("b", np.array([5, 6]), np.array([0.1, 0.2]))
    assert compare_metrics([("a", [[early]]), ("b", [[late]])], ["reward"]).missing == ("reward",)


@pytest.mark.slow
def test_equal_arms_are_rarely_called_separable() -> None:
    called = 0
    for seed in range(1000, 2000):
        a, b = runs(lambda step: 0.5, 3, 0.05, 20, 2 * seed), runs(lambda step: 0.5, 3, 0.05, 20, 2 * seed + 1)
        (one,) = compare_metrics([("a", [a]), ("b", [b])], ["reward"]).comparisons
        called += one.separation.separable
    assert called <= 70
