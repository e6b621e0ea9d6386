"""Shares of groups over time, from groups written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError
from tests.simulation.recorded import record, rollout


def test_shares_of_each_part(tmp_path: Path) -> None:
    right, wrong, mixed = [1, 1], [0, 0], [1, 0]
    rollouts = {1: rollout([wrong, wrong, mixed, right]), 2: rollout([mixed, right, right, right])}
    found = registry.analysis("group_outcomes").run(record(tmp_path / "r", rollouts=rollouts))
    assert found.g == 2
    assert found.last_step == (1, 2)
    assert found.groups == (4, 4)
    assert (found.all_wrong, found.mixed, found.all_right) == ((0.5, 0.0), (0.25, 0.25), (0.25, 0.75))
    assert found.dead == (0.75, 0.75)


def test_spread_in_the_total_is_told_apart_from_the_outcome(tmp_path: Path) -> None:
    # All wrong by the outcome, but a length penalty spreads the totals: such a group has a gradient.
    parts = np.array([[[0.0, 0.1], [0.0, 0.2]], [[1.0, 0.1], [0.0, 0.3]]])
    rollouts = {1: rollout(parts.sum(axis=2), parts=parts)}
    run = record(tmp_path / "r", rollouts=rollouts, reward_functions=("exact_match", "length"))
    found = registry.analysis("group_outcomes").run(run)
    assert found.outcome == "exact_match"
    assert found.all_wrong == (0.5,)
    assert found.dead == (0.0,)


def test_long_runs_are_cut_into_parts_at_steps(tmp_path: Path) -> None:
    rollouts = {step: rollout([[step % 2, step % 2]]) for step in range(1, 122)}
    found = registry.analysis("group_outcomes").run(record(tmp_path / "r", rollouts=rollouts))
    assert len(found.groups) == 41
    assert sum(found.groups) == 121
    assert found.last_step[-1] == 121
    assert all(share == 1.0 for share in found.dead)


def test_graded_rewards_have_no_outcome(tmp_path: Path) -> None:
    found = registry.analysis("group_outcomes").run(
        record(tmp_path / "r", rollouts={1: rollout([[0.1, 0.2], [0.3, 0.3]])})
    )
    assert found.outcome is None
    assert np.isnan(found.all_right[0])
    assert found.dead == (0.5,)


def test_without_rollouts_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="rollouts"):
        registry.analysis("group_outcomes").run(record(tmp_path / "r", metrics={1: {"reward": 1.0}}))
