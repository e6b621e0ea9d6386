"""Sizes of comparisons: against published numbers, against simulated comparisons, and how they hang together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t

from grpodyn.arms.plan import plan
from grpodyn.arms.planning import (
    Design,
    Noise,
    noise_of_rates,
    prompts_needed,
    samples_needed,
    seeds_needed,
    smallest_seen,
    standard_error,
)
from grpodyn.errors import UsageError


def test_the_items_that_a_public_comparison_would_have_needed() -> None:
    # 70.0 against 74.5 with one answer an item: (1.96 + .8416)² (.7·.3 + .745·.255)/.045² = 1,551 items an arm.
    noise = noise_of_rates(0.70, 0.045, between=0.5)
    assert prompts_needed(noise, Design(200, 1), 0.045, 0.95, 0.8) == 1551
    # With the 200 that were used: 12.5 points.
    assert smallest_seen(noise, Design(200, 1)) == pytest.approx(2.8016 * math.sqrt(0.399975 / 200), rel=1e-4)


def test_the_share_between_prompts_matters_only_for_several_samples() -> None:
    alike, apart = noise_of_rates(0.5, 0.1, between=0.0), noise_of_rates(0.5, 0.1, between=1.0)
    assert standard_error(alike, Design(100, 1)) == pytest.approx(standard_error(apart, Design(100, 1)))
    # Prompts that are all alike: 4 samples of 100 are as good as 400 prompts. Prompts that are right or wrong: no gain.
    assert standard_error(alike, Design(100, 4)) == pytest.approx(standard_error(alike, Design(400, 1)))
    assert standard_error(apart, Design(100, 4)) == pytest.approx(standard_error(apart, Design(100, 1)))
    assert standard_error(alike, Design(100, None)) == 0


def test_what_no_number_mends() -> None:
    # Seeds alone: √2 · .05 · 2.8 = .198 with one run an arm, whatever the prompts.
    noise = Noise(0.2, 0.2, seed=0.05)
    assert prompts_needed(noise, Design(100, None), 0.1, 0.95, 0.8) is None
    assert seeds_needed(noise, Design(10_000, None), 0.1, 0.95, 0.8) is not None
    # Between-prompt noise: √(.2/20) · 2.8 = .28, whatever the samples.
    assert samples_needed(Noise(0.2, 0.2, None), Design(20, 1), 0.2, 0.95, 0.8) is None


sizes = st.integers(1, 500)


@settings(deadline=None)
@given(st.floats(0.01, 0.5), st.floats(0, 0.5), st.floats(0, 0.1), sizes, st.integers(1, 20), st.floats(0.02, 0.4))
def test_what_is_needed_is_just_enough(
    between: float, within: float, seed: float, prompts: int, samples: int, difference: float
) -> None:
    noise, design = Noise(between, within, seed), Design(prompts, samples, seeds=3)
    for needed, name in ((prompts_needed, "prompts"), (samples_needed, "samples"), (seeds_needed, "seeds")):
        found = needed(noise, design, difference, 0.95, 0.8)
        if found is None:
            continue
        assert smallest_seen(noise, replace(design, **{name: found})) <= difference
        if found > (2 if name == "seeds" else 1):
            assert smallest_seen(noise, replace(design, **{name: found - 1})) > difference


@pytest.mark.parametrize(("seeds", "samples"), [(1, 4), (1, None), (4, 2)])
def test_the_smallest_difference_is_seen_four_times_in_five(seeds: int, samples: int | None) -> None:
    # Two arms on the same 80 prompts with independent solve rates, n seeds each that shift all rates alike.
    rng = np.random.default_rng(0)
    # Beta(a, a) solve rates: variance 1/(4(2a + 1)); a = 6 keeps a shift inside [0, 1].
    between, spread = 1 / 52, 0.02 if seeds > 1 else 0.0
    noise = Noise(2 * between, 2 * (0.25 - between), spread or None)
    design = Design(80, samples, seeds)
    shift, seen = smallest_seen(noise, design), 0
    trials = 4000
    for _ in range(trials):
        arms = []
        for offset in (0.0, shift):
            rates = rng.beta(6, 6, 80) + offset - shift / 2
            each = np.clip(rates + rng.normal(0, spread, (seeds, 1)), 0, 1)
            arms.append(each.mean(1) if samples is None else rng.binomial(samples, each).mean(1) / samples)
        error = standard_error(noise, design)
        seen += abs(arms[1].mean() - arms[0].mean()) > critical(seeds) * error
    # With several seeds the test is by t; its power with a known error is a little higher.
    assert seen / trials == pytest.approx(0.8, abs=0.025 if seeds == 1 else 0.08)


def critical(seeds: int) -> float:
    return float(norm.isf(0.025) if seeds == 1 else t.isf(0.025, 2 * seeds - 2))


def test_plans_that_make_no_sense() -> None:
    noise = noise_of_rates(0.5, 0.1, 0.5)
    with pytest.raises(UsageError, match="difference of 0"):
        plan(noise, Design(10, 1), 0.0, ())
    with pytest.raises(UsageError, match="prompts is 0, expected at least 1"):
        plan(noise, Design(0, 1), 0.1, ())
    with pytest.raises(UsageError, match=r"base \+ difference is 1\.1"):
        noise_of_rates(0.9, 0.2, 0.5)
    with pytest.raises(UsageError, match="probabilities between 0 and 1"):
        plan(noise, Design(10, 1), 0.1, (), level=95)
