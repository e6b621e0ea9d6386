"""Phases of a run, and prompts that come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from grpodyn.groups import outcomes
from grpodyn.groups.one_run import HOLDS_FOR, OneRun, describe
from tests.simulation.recorded import record, rollout


def described(tmp_path: Path, batches: dict) -> OneRun:
    run = record(tmp_path / "run", rollouts=batches)
    read = outcomes.read(run)
    return describe(read, path="run", run_id="r", status="finished", asked=(), target=0.4)


def test_prompts_that_come_back(tmp_path: Path) -> None:
    found = described(
        tmp_path,
        {
            # Prompts 1 and 2 all wrong, 3 all right; prompt 4 twice in one step: that is no return.
            1: rollout([[0, 0], [0, 0], [1, 1], [1, 0], [0, 0]], [1, 2, 3, 4, 4]),
            2: rollout([[1, 0], [0, 0], [1, 0]], [1, 2, 3]),
            3: rollout([[0, 1]], [2]),
        },
    )
    back = found.returning
    assert back.prompts == 3
    # 1: useful; 2: wrong again, then useful; 3: useful.
    assert (back.after_all_wrong, back.useful_after_all_wrong) == (3, pytest.approx(2 / 3))
    assert (back.after_all_right, back.useful_after_all_right) == (1, 1)
    assert (found.prompts_seen, found.groups_seen) == (4, 9)


def test_phases_follow_the_run(tmp_path: Path) -> None:
    batches = {step: rollout([[0, 0]] if step < 3 else [[1, 0]] if step < 5 else [[1, 1]]) for step in range(1, 7)}
    found = described(tmp_path, batches)
    assert [(p.first_step, p.last_step) for p in found.phases] == [(1, 2), (3, 4), (5, 6)]
    assert [p.dead for p in found.phases] == [1, 0, 1]
    assert [p.all_wrong for p in found.phases] == [1, 0, 0]
    assert [p.all_right for p in found.phases] == [0, 0, 1]


def test_it_says_what_it_holds_for(tmp_path: Path) -> None:
    found = described(tmp_path, {1: rollout(np.eye(4))})
    assert found.holds_for == HOLDS_FOR
    assert "other policies" in found.holds_for
