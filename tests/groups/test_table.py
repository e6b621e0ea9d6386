"""The table of group sizes against the truth it is drawn from, and against public solve counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from grpodyn.groups.outcomes import TOTAL, Groups
from grpodyn.groups.resampling import chance_all
from grpodyn.groups.table import LARGEST, OutcomeTable, sizes, total_row
from tests.simulation.groups import SPIKE_AND_ZERO, SimulatedGroups, random_run, simulate

TRACES = Path(__file__).parents[1] / "data" / "traces"
COUNTS = ["solve_counts_gsm8k_llama8b_base_G32.csv", "solve_counts_gsm8k_qwen3_8b_G16.csv"]


def groups_of(run: SimulatedGroups) -> Groups:
    reward = run.rewards(np.random.default_rng(0))
    steps = np.ones(len(run.prompt), np.int64)
    return Groups(run.prompt, steps, reward, reward > 0, TOTAL, 0, ())


def table_of(run: SimulatedGroups) -> OutcomeTable:
    return OutcomeTable(groups_of(run), run.right)


@pytest.mark.parametrize("recorded", [8, 16])
def test_36_percent_at_one_half_and_64_at_zero(recorded: int) -> None:
    table = table_of(simulate(np.random.default_rng(recorded), SPIKE_AND_ZERO, prompts=4000, g=recorded))
    for g in (32, 64):
        row = table.row(g)
        assert row.dead == pytest.approx(0.64, abs=0.02)
        assert row.dead_interval.contains(0.64)
        assert row.dead_interval.high - row.dead_interval.low < 0.2
        assert row.all_right == pytest.approx(0, abs=1e-3)
        assert row.basis == "mixing"
    # Two of three prompts are never solved: no group size helps them, and the table says so.
    assert table.implied(0.5).g is None


@pytest.mark.parametrize("name", COUNTS)
def test_public_solve_counts_are_foretold_from_half_of_each_prompts_samples(name: str) -> None:
    data = pd.read_csv(TRACES / name)
    n, right = int(data["n_samples"].iloc[0]), data["n_correct"].to_numpy()
    half, prompts = n // 2, np.arange(len(data))
    inside = {2: 0, 4: 0, 8: 0}
    for seed in range(100):
        seen = np.random.default_rng(seed).hypergeometric(right, n - right, half)
        table = table_of(SimulatedGroups(prompts, seen, half))
        for g in inside:
            rest = right - seen
            truth = (chance_all(rest, half, g) + chance_all(half - rest, half, g)).mean()
            inside[g] += table.dead(g).contains(truth)
    assert min(inside.values()) >= 95, inside


def test_rows_add_up_and_fall() -> None:
    table = table_of(random_run(np.random.default_rng(3))[1])
    rows = [table.row(g) for g in (2, 4, 8, 16, 32)]
    for row in rows:
        assert row.dead == pytest.approx(row.all_right + row.all_wrong, abs=1e-9)
        assert row.useful_per_1000 == pytest.approx(1000 * (1 - row.dead))
        assert row.dead_interval.low <= row.dead <= row.dead_interval.high
    dead = [row.dead for row in rows]
    assert dead == sorted(dead, reverse=True)
    signals = [row.signal_share for row in rows]
    assert signals == sorted(signals)
    assert signals[-1] <= 1


def test_the_size_that_a_target_implies() -> None:
    run = simulate(np.random.default_rng(0), SPIKE_AND_ZERO, prompts=500, g=16)
    table = table_of(run)
    implied = table.implied(0.7)
    # .64 + .36 · 2 · ½^G: .73 at 3, .685 at 4 – or, with this draw's share of unsolved prompts, near that.
    assert implied.g is not None
    assert table.row(implied.g).dead <= 0.7 < table.row(implied.g - 1).dead
    assert implied.at_least is not None
    assert implied.at_least <= implied.g
    assert implied.surely is None or implied.surely >= implied.g
    assert table.implied(0.9999).g == 2
    assert LARGEST >= 128


def test_beyond_the_recorded_size_other_rewards_are_not_foretold() -> None:
    reward = np.array([[0.1, 0.2], [0.3, 0.3]])
    groups = Groups(np.arange(2), np.ones(2, np.int64), reward, None, None, 0, ())
    row = total_row(groups, None, 8)
    assert np.isnan(row.dead)
    assert row.basis == "unknown"
    # Larger groups are never dead more often: that much is known.
    assert row.dead_interval.low == 0
    assert row.dead_interval.high == total_row(groups, None, 2).dead_interval.high


def test_sizes() -> None:
    assert sizes(8) == [2, 4, 8, 16, 32]
    assert sizes(6, (3, 12)) == [3, 6, 12]
    assert sizes(2) == [2, 4, 8, 16]
