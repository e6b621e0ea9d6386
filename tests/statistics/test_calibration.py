"""Stated 95 % intervals cover 93–97 % of simulated paired outcomes, with few seeds and with lumpy outcomes too."""

from collections.abc import Callable

import numpy as np
import pytest

from grpodyn.statistics import (
    mean_interval,
    non_inferiority,
    paired_interval,
    paired_share_interval,
    ratio_interval,
    tost,
)

SIMULATED = 6000

pytestmark = pytest.mark.slow


def coverage(draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]], truth: float, **options) -> float:
    rng = np.random.default_rng(20)
    return np.mean([paired_interval(*draw(rng), **options).contains(truth) for _ in range(SIMULATED)])


def normal_seeds(n):
    def draw(rng):
        seed = rng.normal(0.6, 0.05, n)  # shared by the pair
        return seed + rng.normal(0.03, 0.01, n), seed + rng.normal(0, 0.02, n)

    return draw


def lumpy_seeds(n):
    """Accuracies counted on 40 prompts: a grid of 1/40."""

    def draw(rng):
        solve_rate = rng.uniform(0.5, 0.7, n)
        return rng.binomial(40, solve_rate + 0.1) / 40, rng.binomial(40, solve_rate) / 40

    return draw


def bounded_seeds(n):
    """Accuracies that press against 1, so that their spread differs and is skewed."""

    def draw(rng):
        return rng.beta(20, 1.5, n), rng.beta(12, 3, n)

    return draw


BOUNDED_TRUTH = 20 / 21.5 - 12 / 15


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize(("seeds", "truth"), [(normal_seeds, 0.03), (lumpy_seeds, 0.1), (bounded_seeds, BOUNDED_TRUTH)])
def test_few_seeds(seeds, truth, n):
    assert 0.93 <= coverage(seeds(n), truth) <= 0.97


def test_exact_probabilities_of_prompts():
    def draw(rng):
        logit = rng.normal(0, 2.5, 150)  # most prompts are solved nearly always or nearly never
        return 1 / (1 + np.exp(-(logit + rng.normal(0.5, 0.8, 150)))), 1 / (1 + np.exp(-logit))

    rng = np.random.default_rng(0)
    many = rng.normal(0, 2.5, 4_000_000)
    truth = np.mean(1 / (1 + np.exp(-(many + rng.normal(0.5, 0.8, many.size)))) - 1 / (1 + np.exp(-many)))
    assert 0.93 <= coverage(draw, truth) <= 0.97


def test_samples_of_prompts_cluster():
    """Unequal numbers of right-or-wrong samples a prompt; ignoring the prompts would cover far too rarely."""
    sizes = np.tile([2, 4, 8], 20)
    labels = np.repeat(np.arange(60), sizes)
    naive, clustered = [], []
    rng = np.random.default_rng(21)
    for _ in range(SIMULATED):
        rate = rng.beta(0.4, 0.4, 60)
        gain = np.clip(rate + rng.choice([0, 0, 0.5], 60), 0, 1)
        a = rng.uniform(size=labels.size) < np.repeat(gain, sizes)
        b = rng.uniform(size=labels.size) < np.repeat(rate, sizes)
        clustered.append(paired_interval(a, b, clusters=labels))
        naive.append(paired_interval(a, b))
    # E[min(1, r + .5) − r]/3 by symmetry of the beta: both halves give (½·½ + ∫_{½}^{1}(1 − r))/3, taken numerically.
    rng = np.random.default_rng(0)
    rate = rng.beta(0.4, 0.4, 4_000_000)
    truth = np.mean(np.minimum(1, rate + 0.5) - rate) / 3
    assert 0.93 <= np.mean([i.contains(truth) for i in clustered]) <= 0.97
    assert np.mean([i.contains(truth) for i in naive]) < 0.92


def test_bca_on_skewed_outcomes():
    rng = np.random.default_rng(22)
    covered = [mean_interval(rng.exponential(size=80), method="bca").contains(1.0) for _ in range(4000)]
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(("n", "gained", "lost"), [(60, 0.1, 0.05), (200, 0.03, 0.01), (1000, 0.2, 0.15)])
def test_paired_shares(n, gained, lost):
    rng = np.random.default_rng(23)
    covered = []
    for _ in range(SIMULATED):
        change = rng.choice([1, -1, 0], n, p=[gained, lost, 1 - gained - lost])
        covered.append(paired_share_interval(change == 1, change == -1).contains(gained - lost))
    assert 0.93 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize("n", [3, 5, 10])
def test_ratio_of_gains(n):
    rng = np.random.default_rng(24)
    covered = []
    for _ in range(SIMULATED):
        whole = rng.normal(0.3, 0.02, n)
        kept = 0.9 * whole + rng.normal(0, 0.02, n)
        covered.append(ratio_interval(kept, whole).contains(0.9))
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("n", [3, 10])
def test_errors_at_the_edge_of_the_margin(n):
    """A difference of exactly the margin is called not inferior, or equivalent, in at most 5 of 100 studies."""
    rng = np.random.default_rng(25)
    zero = np.zeros(n)
    draws = rng.normal(-0.03, 0.02, (SIMULATED, n))
    inferior = np.mean([non_inferiority(d, zero, 0.03).p < 0.05 for d in draws])
    equivalent = np.mean([tost(d, zero, 0.03).equivalent for d in draws])
    assert 0.04 <= inferior <= 0.06
    assert equivalent <= 0.06
