"""The printed commands train what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpodyn.config.run import embedded
from grpodyn.groups.sweep import sweep
from tests.simulation.recorded import record, rollout


def a_run(tmp_path: Path, **grpo: Any):
    config = embedded([f"grpo.{key}={value}" for key, value in grpo.items()]).to_record()
    return record(tmp_path / "a run", rollouts={1: rollout([[1, 0]])}, config=config)


def test_sizes_share_the_completions_of_a_step(tmp_path: Path) -> None:
    found = sweep(a_run(tmp_path), 8)
    assert found.sizes == (4, 8, 16)
    train, compare = found.commands
    assert train.startswith("for g in 4 8 16; do for s in 0 1 2; do grpodyn record '")
    assert "--set grpo.num_generations=$g --set seed=$s" in train
    assert compare == f"grpodyn group-size '{tmp_path}/a run'-g*-s*"


def test_a22_sizes_that_no_batch_holds_are_refused_up_front(tmp_path: Path) -> None:
    found = sweep(a_run(tmp_path, per_device_train_batch_size=24), 8)
    assert found.sizes == (4, 8)
    assert any("G=16 is left out" in note and "no whole number of groups" in note for note in found.notes)


def test_a_wanted_size_goes_up_to_the_next_that_fits(tmp_path: Path) -> None:
    assert sweep(a_run(tmp_path), 8, wanted=[26]).sizes == (4, 8, 16, 32)


def test_a22_epochs_grow_with_the_group(tmp_path: Path) -> None:
    found = sweep(a_run(tmp_path, max_steps=-1), 8)
    assert any("larger groups take more steps" in note for note in found.notes)


def test_a_script_of_its_own_gets_words_instead(tmp_path: Path) -> None:
    found = sweep(record(tmp_path / "run", rollouts={1: rollout([[1, 0]])}), 4)
    assert found.commands == ()
    assert "num_generations 2, 4, 8" in found.notes[0]
