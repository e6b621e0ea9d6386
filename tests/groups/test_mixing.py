"""The fitted distribution of solve rates, and what larger groups can be under the counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from grpodyn.groups.bounds import LikelihoodRegion, clustering
from grpodyn.groups.mixing import GRID, Mixing, fit, likelihoods
from tests.simulation.groups import SPIKE_AND_ZERO, random_run, simulate


def dead(g: int):
    return lambda p: p**g + (1 - p) ** g


def bounds(region: LikelihoodRegion, function) -> tuple[float, float]:
    return region.least(function), region.greatest(function)


def exact_counts(g: int, groups: float = 1e4) -> np.ndarray:
    """Return the expected counts of 36 % of prompts at one half and 64 % at 0."""
    return groups * (0.36 * binom.pmf(np.arange(g + 1), g, 0.5) + 0.64 * (np.arange(g + 1) == 0))


def test_a_single_rate_is_found() -> None:
    counts = binom.pmf(np.arange(9), 8, 0.25) * 1000
    fitted = fit(counts)
    assert fitted.mean(lambda p: p) == pytest.approx(0.25, abs=1e-4)
    assert fitted.mean(lambda p: (p - 0.25) ** 2) < 2e-4


@pytest.mark.parametrize("g", [8, 16])
def test_36_percent_at_one_half_and_64_at_zero_are_dead_in_64_percent(g: int) -> None:
    # The distribution has 1½ points in the sense of moment theory, so 3 moments already fix it.
    fitted = fit(exact_counts(g))
    assert fitted.dead(32) == pytest.approx(0.64, abs=0.003)
    assert fitted.dead(64) == pytest.approx(0.64, abs=0.003)
    low, high = bounds(LikelihoodRegion(exact_counts(g), fitted, 1e-3), dead(32))
    assert low - 1e-3 <= 0.64 <= high + 1e-3
    assert high - low < 0.02


def test_36_percent_at_one_half_sampled() -> None:
    run = simulate(np.random.default_rng(5), SPIKE_AND_ZERO, prompts=3000, g=8)
    counts = np.bincount(run.right, minlength=9).astype(float)
    fitted = fit(counts)
    assert fitted.dead(32) == pytest.approx(0.64, abs=0.02)
    assert fitted.dead(64) == pytest.approx(0.64, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=9).filter(lambda counts: sum(counts) > 0))
def test_no_direction_gains_at_the_fit(counts: list[int]) -> None:
    # Kuhn and Tucker: the gradient towards every single rate is at most 0, and 0 where there is weight.
    observed = np.array(counts, float)
    fitted = fit(observed)
    seen, likelihood = likelihoods(observed)
    gradient = (observed[seen] / observed.sum()) @ (likelihood / (likelihood @ fitted.weights)[:, None])
    assert fitted.weights.sum() == pytest.approx(1)
    assert (fitted.weights >= 0).all()
    assert gradient.max() < 1 + 1e-5
    assert gradient @ fitted.weights == pytest.approx(1)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=4, max_size=9).filter(lambda counts: sum(counts) > 0), st.integers(2, 64))
def test_bounds_hold_the_fit_and_every_member(counts: list[int], g: int) -> None:
    observed = np.array(counts, float)
    fitted = fit(observed)
    region = LikelihoodRegion.at(observed, fitted)
    low, high = bounds(region, dead(g))
    assert low - 1e-6 <= fitted.dead(g) <= high + 1e-6
    seen, likelihood = likelihoods(observed)
    top = observed[seen] @ np.log(likelihood @ fitted.weights)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.zeros(len(GRID))
        other[rng.integers(0, len(GRID), 3)] = rng.dirichlet(np.ones(3))[:3]
        mixed = 0.9 * fitted.weights + 0.1 * other / other.sum()
        if top - observed[seen] @ np.log(likelihood @ mixed) <= region.drop:
            assert low - 1e-3 <= Mixing(mixed).dead(g) <= high + 1e-3


def test_bounds_of_one_rate_by_hand() -> None:
    # All of 10 groups of 1 are wrong: F with P(wrong)^10 ≥ exp(−drop), so E[1 − p] ≥ exp(−drop/10).
    counts = np.array([10.0, 0.0])
    region = LikelihoodRegion.at(counts, fit(counts))
    low, high = bounds(region, lambda p: 1 - p)
    assert region.drop == pytest.approx(chi2.ppf(0.95, 1) / 2)
    assert low == pytest.approx(np.exp(-region.drop / 10), abs=1e-3)
    assert high == pytest.approx(1)


def test_questions_do_not_disturb_each_other() -> None:
    counts = np.array([30.0, 5, 3, 8, 4, 2, 3, 1, 9])
    fresh = bounds(LikelihoodRegion.at(counts, fit(counts)), dead(32))
    asked_before = LikelihoodRegion.at(counts, fit(counts))
    bounds(asked_before, dead(16))
    bounds(asked_before, lambda p: p)
    assert bounds(asked_before, dead(32)) == pytest.approx(fresh, abs=2e-3)


def test_clustering_of_prompts_that_return() -> None:
    right = np.array([0, 8, 0, 4])
    assert clustering(np.arange(4), right) == pytest.approx(1)
    # Every prompt four times with the same count: four groups are one.
    assert clustering(np.repeat(np.arange(4), 4), np.repeat(right, 4)) == pytest.approx(4)
    assert clustering(np.repeat(np.arange(5), 3), np.zeros(15, int)) == pytest.approx(3)


@pytest.mark.slow
def test_bounds_cover_the_truth_at_least_as_often_as_they_say() -> None:
    hits = []
    for seed in range(1000, 1100):
        mixture, run = random_run(np.random.default_rng(seed))
        counts = np.bincount(run.right, minlength=9).astype(float)
        region = LikelihoodRegion.at(counts, fit(counts), clustering(run.prompt, run.right))
        for g in (16, 32):
            low, high = bounds(region, dead(g))
            hits.append(low <= mixture.dead(g) <= high)
    # 95 % are stated; the two sizes of a run go together, so 100 runs tell it to within 2.2 points.
    assert np.mean(hits) >= 0.95 - 2 * 0.022
