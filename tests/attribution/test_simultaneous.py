"""Intervals that hold all at once: against the formula for one column, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from grpodyn.attribution import simultaneous
from grpodyn.statistics import mean_interval, ratio_interval


def test_one_column_is_the_usual_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 400)
    ours = simultaneous.means(values[:, None], 0.95).interval(0)
    usual = mean_interval(values, 0.95)
    assert ours.value == usual.value
    # The critical value is a bootstrap quantile of 2,000 draws.
    assert ours.high - ours.low == pytest.approx(usual.high - usual.low, rel=0.06)


def test_many_independent_columns_need_sidaks_value() -> None:
    influence = np.random.default_rng(1).normal(size=(2000, 20))
    sidak = norm.isf((1 - 0.95 ** (1 / 20)) / 2)
    assert simultaneous.critical_value(influence, 0.95) == pytest.approx(sidak, rel=0.04)


def test_columns_that_are_one_need_no_more_than_one() -> None:
    column = np.random.default_rng(2).normal(size=(2000, 1))
    repeated = simultaneous.critical_value(np.repeat(column, 30, axis=1), 0.95)
    assert repeated == pytest.approx(1.96, rel=0.05)


def test_a_part_that_does_nothing_is_exactly_zero_and_takes_no_allowance() -> None:
    column = np.random.default_rng(3).normal(size=(500, 1))
    with_idle = simultaneous.means(np.hstack([column, np.zeros((500, 3))]), 0.95)
    alone = simultaneous.means(column, 0.95)
    assert with_idle.critical == alone.critical
    assert with_idle.interval(1) == simultaneous.Interval(0.0, 0.0, 0.0, 0.95)


def test_ratios_agree_with_fieller_where_the_gain_is_clear() -> None:
    rng = np.random.default_rng(4)
    gain = rng.normal(0.4, 0.3, 600)
    part = 0.5 * gain + rng.normal(0, 0.1, 600)
    ours = simultaneous.ratios(part[:, None], gain, 0.95).interval(0)
    fieller = ratio_interval(part, gain, 0.95)
    assert ours.value == pytest.approx(fieller.value)
    assert (ours.low, ours.high) == pytest.approx((fieller.low, fieller.high), abs=0.01)


def test_no_gain_gives_no_shares() -> None:
    nothing = simultaneous.ratios(np.ones((10, 2)), np.zeros(10), 0.95)
    assert np.isnan(nothing.values).all()


def test_no_spread_in_samples_is_no_certainty() -> None:
    # Of 20 prompts none differs: a difference on one of seven may have been missed, 3/20 = .15.
    nothing = np.zeros((20, 1))
    assert simultaneous.means(nothing, 0.95, sampled=True).interval(0) == simultaneous.Interval(0.0, -0.15, 0.15, 0.95)
    # Of exact probabilities that are all alike there is nothing that could have been missed.
    assert simultaneous.means(nothing, 0.95).interval(0) == simultaneous.Interval(0.0, 0.0, 0.0, 0.95)
    # In shares of a gain of .5, 3/20 is .3; a column that has a spread keeps its own interval.
    gain = np.tile([0.4, 0.6], 10)
    still, moving = (
        simultaneous.ratios(np.column_stack([np.zeros(20), gain**2]), gain, 0.95, sampled=s) for s in (1, 0)
    )
    assert still.interval(0).high == pytest.approx(0.3)
    assert still.interval(1) == moving.interval(1)


@pytest.mark.slow
@pytest.mark.parametrize(("prompts", "samples"), [(200, None), (400, 4)])
def test_all_shares_are_covered_at_once_as_often_as_stated(prompts: int, samples: int | None) -> None:
    """4,000 evaluations of a model of eight parts; the truth is the ratio of the population's means."""
    weights = np.array([0.6, 0.2, 0.1, 0.05, 0.05, 0.0, 0.0, -0.1])
    rng = np.random.default_rng(7)

    def draw(n: int, samples: int | None) -> tuple[np.ndarray, np.ndarray]:
        base = rng.beta(0.5, 3.0, n)
        gain = (1 - base) * rng.beta(0.6, 0.9, n)
        own = rng.normal(0, 0.03, (n, 8))
        right = np.clip(base[:, None] + gain[:, None] * weights + own * gain[:, None], 0, 1)
        if samples is None:
            return right - base[:, None], gain
        shown, first, last = (rng.binomial(samples, np.clip(p, 0, 1)) / samples for p in (right, base, base + gain))
        return shown - first[:, None], last - first

    exact, whole = draw(2_000_000, None)
    truth = exact.mean(axis=0) / whole.mean()
    covered = 0
    for _ in range(4000):
        parts, gain = draw(prompts, samples)
        found = simultaneous.ratios(parts, gain, 0.95)
        covered += bool((np.abs(found.values - truth) <= found.critical * found.errors).all())
    assert 0.93 <= covered / 4000 <= 0.97
