from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpodyn.training.checkpoints import CheckpointClock, last_whole, remove_partial


def write(folder: Path, step: int, state: str | None = None) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"w")
    if state is None:
        state = json.dumps({"global_step": step})
    if state:
        (checkpoint / "trainer_state.json").write_text(state)
    return checkpoint


def test_the_last_by_number_not_by_name(tmp_path) -> None:
    for step in (50, 100, 9):
        write(tmp_path, step)
    assert last_whole(tmp_path) == (100, tmp_path / "checkpoint-100")


@pytest.mark.parametrize("state", ["", '{"global_step": 15', '{"global_step": 100}', "[]"])
def test_one_that_was_not_written_to_its_end_does_not_count(tmp_path, state: str) -> None:
    write(tmp_path, 100)
    partial = write(tmp_path, 150, state)
    assert last_whole(tmp_path) == (100, tmp_path / "checkpoint-100")
    assert remove_partial(tmp_path) == [partial]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-100"]


def test_no_checkpoint_and_no_folder_are_none(tmp_path) -> None:
    assert last_whole(tmp_path) is None
    assert last_whole(tmp_path / "absent") is None
    assert remove_partial(tmp_path / "absent") == []


def test_other_folders_are_left_alone(tmp_path) -> None:
    (tmp_path / "checkpoint-best").mkdir()
    assert remove_partial(tmp_path) == []
    assert (tmp_path / "checkpoint-best").is_dir()


def asked(clock: CheckpointClock, strategy: str = "steps") -> bool:
    control = SimpleNamespace(should_save=False)
    clock.on_step_end(SimpleNamespace(save_strategy=strategy), None, control)
    return control.should_save


def test_the_clock_asks_after_its_time_and_starts_anew_with_every_checkpoint() -> None:
    now = 0.0
    clock = CheckpointClock(seconds=120, clock=lambda: now)
    clock.on_train_begin(None, None, None)
    now = 119.0
    assert not asked(clock)
    now = 120.0
    assert asked(clock)
    clock.on_save(None, None, None)
    now = 239.0
    assert not asked(clock)
    now = 500.0
    assert not asked(clock, strategy="no")
    assert asked(clock)
