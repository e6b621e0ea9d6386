"""A few scalars in the trainer's own loggers; the trainer's log and the trace are what they are without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.mirror import Mirror
from grpodyn.trace.schema import TensorInfo

# They tell the time; everything else is decided by the seed.
OF_TIME = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second")


def trained(make_trainer, folder: Path, *, mirror: bool, **arguments):
    torch.manual_seed(5)
    np.random.seed(5)
    recorder = Recorder(folder / "run", RecordConfig(preset="full", mirror=mirror))
    trainer = make_trainer(callbacks=[recorder], max_steps=4, output_dir=str(folder / "out"), **arguments)
    trainer.train()
    log = [{key: value for key, value in row.items() if key not in OF_TIME} for row in trainer.state.log_history]
    return open_run(folder / "run"), log


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    return tmp_path / "board"


def scalars(board: Path) -> dict[str, dict[int, float]]:
    accumulating = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found: dict[str, dict[int, float]] = {}
    for file in board.rglob("events.out.*"):
        events = accumulating.EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            found[tag] = {event.step: event.value for event in events.Scalars(tag)}
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_scalars_and_nothing_else_changes(tmp_path: Path, board: Path, make_trainer) -> None:
    plain, log = trained(make_trainer, tmp_path / "plain", mirror=False, report_to=["tensorboard"])
    before = set(scalars(board))
    assert not [tag for tag in before if "grpodyn" in tag], "off unless asked for"
    for file in board.rglob("events.out.*"):
        file.unlink()
    mirrored, mirrored_log = trained(make_trainer, tmp_path / "mirrored", mirror=True, report_to=["tensorboard"])
    assert json.dumps(mirrored_log) == json.dumps(log)
    # Not spectra: a sweep that comes late is skipped, and that is a matter of time.
    for group in ("tensors", "layers", "rollouts"):
        assert getattr(plain, group).equals(getattr(mirrored, group)), group
    assert list(plain.metrics.metric.values) == list(mirrored.metrics.metric.values)
    assert mirrored.manifest.recorder["faults"] == {}

    found = scalars(board)
    own = {tag.removeprefix("train/grpodyn/"): values for tag, values in found.items() if "grpodyn" in tag}
    assert set(found) - before == {f"train/grpodyn/{name}" for name in own}
    ratio = mirrored.tensors["update_ratio"].values
    assert list(own["update_ratio_median"].values())[:4] == pytest.approx(np.nanmedian(ratio, axis=1), rel=1e-6)
    delta = np.sqrt((mirrored.tensors["delta_norm"].values ** 2).sum(axis=1))
    assert list(own["delta_norm"].values()) == pytest.approx(delta, rel=1e-6)
    dead = (np.ptp(mirrored.rollouts["reward"].values, axis=2) == 0).mean(axis=1)
    assert list(own["dead_group_share"].values()) == pytest.approx(dead)
    assert {"effective_rank_mean", "stable_rank_mean", "recorder_seconds", "recorder_share"} <= set(own)
    assert sorted(own["recorder_seconds"]) == [1, 2, 3, 4]


def test_a_trainer_without_a_logger_is_told_of(tmp_path: Path, make_trainer) -> None:
    run, _ = trained(make_trainer, tmp_path, mirror=True)
    (event,) = [event for event in run.events if event["what"] == "nothing mirrored"]
    assert "tensorboard, wandb, trackio" in event["why"]


class WandbCallback:
    """Stands in for the one of transformers, which has that name."""

    def __init__(self) -> None:
        self.told: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float]) -> None:
        self.told.append(logs)


class Trainer:
    def __init__(self, *callbacks: Any) -> None:
        self.callback_handler = type("Handler", (), {"callbacks": callbacks})()
        self.args = self.state = self.control = None


def info(name: str, source: str) -> TensorInfo:
    return TensorInfo(name, 0, "q_proj", "layers", "linear", 2, 2, "float32", True, source)


def test_factors_and_undefined_values_are_left_out() -> None:
    wandb, other = WandbCallback(), object()
    mirror = Mirror(Trainer(other, wandb), [info("a", "lora"), info("b", "lora"), info("a.lora_A", "factor")])
    mirror.see("tensors", {"update_ratio": np.array([0.25, np.nan, 100.0]), "delta_norm": np.array([3.0, 4.0, 9.0])})
    mirror.see("spectra", {"effective_rank": np.array([np.nan, np.nan, 3.0])})
    mirror.see("rollouts", {"reward": np.array([[1.0, 1.0], [0.0, 1.0], [np.nan, 1.0]])})
    mirror.tell(0.5, 0.0)
    # By hand: the medians of {0.25}; the root of 9 + 16; one of two groups that are scored has no spread.
    assert wandb.told == [
        {
            "grpodyn/update_ratio_median": 0.25,
            "grpodyn/update_ratio_largest": 0.25,
            "grpodyn/delta_norm": 5.0,
            "grpodyn/recorder_seconds": 0.5,
            "grpodyn/dead_group_share": 0.5,
        }
    ]
    mirror.tell(0.5, 1.0)
    assert set(wandb.told[1]) == {"grpodyn/recorder_seconds", "grpodyn/recorder_share"}, "nothing is told twice"
