"""Intervals over prompts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from grpodyn.errors import UsageError
from grpodyn.groups.bootstrap import PromptBootstrap
from grpodyn.groups.resampling import chance_all
from tests.simulation.groups import random_run


@pytest.mark.parametrize("ones", [0, 3, 40])
def test_of_single_zeros_and_ones_it_is_jeffreys_interval(ones: int) -> None:
    values = np.repeat([1.0, 0.0], [ones, 40 - ones])
    found = PromptBootstrap.over(np.arange(40), replicates=60_000).interval(values)
    low, high = beta.ppf([0.025, 0.975], ones + 0.5, 40 - ones + 0.5)
    assert found.low == pytest.approx(min(low, ones / 40), abs=0.004)
    assert found.high == pytest.approx(max(high, ones / 40), abs=0.004)


def test_groups_of_one_prompt_count_as_one() -> None:
    # 10 prompts seen 50 times each say no more than 10 prompts.
    values, prompts = np.repeat([1.0, 0.0], 5), np.arange(10)
    once = PromptBootstrap.over(prompts).interval(values)
    often = PromptBootstrap.over(np.repeat(prompts, 50)).interval(np.repeat(values, 50))
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=0.05)


def test_nothing_to_resample() -> None:
    with pytest.raises(UsageError, match="no groups"):
        PromptBootstrap.over(np.zeros(0, np.int64))


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    hits = []
    for seed in range(1000, 1500):
        mixture, run = random_run(np.random.default_rng(seed))
        bootstrap = PromptBootstrap.over(run.prompt, replicates=500)
        for g in (2, 4, 8):
            dead = chance_all(run.right, 8, g) + chance_all(8 - run.right, 8, g)
            hits.append(bootstrap.interval(dead).contains(mixture.dead(g)))
    assert 0.93 <= np.mean(hits) <= 0.975
