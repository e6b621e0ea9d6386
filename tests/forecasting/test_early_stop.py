"""The callback in a real trainer, whose log is given a reward of known course."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.training.early_stop import EarlyStop

STEPS = 120
Course = Callable[[int], dict[str, float]]


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.ones(3)}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.inner(x).pow(2).mean()}


class Rewarded(Trainer):
    """A trainer that logs a reward, as GRPO's does."""

    course: Course

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        super().log({**logs, **self.course(self.state.global_step)}, *args, **kwargs)


def saturating(step: int) -> dict[str, float]:
    noise = 0.01 * math.sin(step * 12.9898) * 1.4
    return {"reward": 0.8 - 0.6 * math.exp(-step / 8) + noise, "grad_norm": 1.0}


def train(tmp_path: Path, callbacks: list[Any], course: Course = saturating, steps: int = STEPS) -> Rewarded:
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=steps, use_cpu=True, report_to=[], disable_tqdm=True,
        save_strategy="no", logging_steps=1, per_device_train_batch_size=2,
    )  # fmt: skip
    trainer = Rewarded(Net(), arguments, train_dataset=Rows(), callbacks=callbacks)
    trainer.course = course
    trainer.train()
    return trainer


def manifest_of(tmp_path: Path) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "run" / "run.json").read_text()))


LIGHT = RecordConfig(preset="light")


def test_it_ends_a_saturated_run_and_writes_why(tmp_path: Path) -> None:
    stop = EarlyStop(act=True)
    trainer = train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)])
    assert stop.decision is not None
    assert trainer.state.global_step == stop.decision.step + 1 < STEPS
    run = open_run(tmp_path / "run")
    assert run.status == "stopped_early"
    event = next(event for event in run.events if event["what"] == "early stop")
    assert event["step"] == stop.decision.step
    assert "may be expected" in event["why"]
    assert event["acts"] is True
    said = manifest_of(tmp_path)["recorder"]["early_stop"]
    assert said["acted"] is True
    assert said["decision"]["step"] == stop.decision.step
    assert said["last_look"]["left"]["level"] == 0.8
    # What the recorder says of itself is still there.
    assert manifest_of(tmp_path)["recorder"]["preset"] == "light"


def test_without_act_it_only_reports(tmp_path: Path) -> None:
    stop = EarlyStop()
    trainer = train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)])
    assert trainer.state.global_step == STEPS
    assert stop.decision is not None
    assert not stop.acted
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert [event["what"] for event in run.events].count("early stop") == 1
    assert manifest_of(tmp_path)["recorder"]["early_stop"]["acted"] is False


def test_a_run_that_goes_on_says_what_it_saw(tmp_path: Path) -> None:
    stop = EarlyStop(act=True)
    train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)], lambda step: {"reward": 0.1 + 0.01 * step}, steps=30)
    assert stop.decision is None
    said = manifest_of(tmp_path)["recorder"]["early_stop"]
    assert said["decision"] is None
    assert said["looks"] >= 3
    assert said["last_look"]["holds"] is False


@pytest.mark.slow
def test_it_works_without_a_recorder(tmp_path: Path) -> None:
    trainer = train(tmp_path, [EarlyStop(act=True)])
    assert trainer.state.global_step < STEPS


def test_a08_gradients_that_stay_nan_end_training(tmp_path: Path) -> None:
    def breaks(step: int) -> dict[str, float]:
        return {"reward": 0.5, "loss": 0.0, "grad_norm": float("nan") if step >= 10 else 1.0}

    stop = EarlyStop(act=True)
    trainer = train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)], breaks)
    assert stop.decision is not None
    assert "broke at step 10" in stop.decision.why
    assert trainer.state.global_step <= 14


def test_one_bad_gradient_is_none_of_its_business(tmp_path: Path) -> None:
    def hiccup(step: int) -> dict[str, float]:
        return {"reward": 0.5 + 0.01 * (step % 3), "grad_norm": float("nan") if step % 7 == 0 else 1.0}

    stop = EarlyStop(act=True)
    assert train(tmp_path, [stop], hiccup, steps=40).state.global_step == 40
    assert stop.decision is None


@pytest.mark.slow
def test_a17_a_spike_of_the_gradient_alone_does_not_stop(tmp_path: Path) -> None:
    stop = EarlyStop(act=True)
    course = lambda step: {"reward": 0.1 + 0.008 * step, "grad_norm": 1e4 if step > 30 else 1.0}  # noqa: E731
    assert train(tmp_path, [stop], course, steps=60).state.global_step == 60


@pytest.mark.slow
def test_truncation_is_named_instead_of_a_plateau(tmp_path: Path) -> None:
    stop = EarlyStop(act=True)
    trainer = train(tmp_path, [stop], lambda step: {**saturating(step), "completions/clipped_ratio": 0.4})
    assert trainer.state.global_step == STEPS
    assert stop.decision is None


@pytest.mark.slow
def test_rewards_that_are_missing_or_null_are_passed_over(tmp_path: Path) -> None:
    def sparse(step: int) -> dict[str, Any]:
        return saturating(step) if step % 4 == 1 else {"reward": None, "grad_norm": np.float64(1.0)}

    stop = EarlyStop(act=True)
    train(tmp_path, [stop], sparse)
    # 30 rewards of 120 rows.
    assert stop._rule is not None
    assert stop._rule.taken <= 8


@pytest.mark.slow
def test_a_run_config_can_ask_for_it(tmp_path: Path) -> None:
    from grpodyn.config.run import embedded  # noqa: PLC0415
    from grpodyn.training.build import build_trainer  # noqa: PLC0415

    config = embedded(["stop.act=true", "stop.epsilon=0.01", "grpo.max_steps=2"])
    training = build_trainer(config, tmp_path / "run")
    kinds = [type(one) for one in training.trainer.callback_handler.callbacks]
    assert kinds.index(EarlyStop) < kinds.index(Recorder)


@pytest.mark.parametrize("value", [-1.0, 2.0])
def test_a_constant_reward_outside_of_0_and_1_is_looked_at(tmp_path: Path, value: float) -> None:
    stop = EarlyStop(act=True)
    train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)], lambda step: {"reward": value}, steps=14)
    # Looks at rows 10 and 13.
    assert manifest_of(tmp_path)["recorder"]["early_stop"]["looks"] == 2
    assert "early stop failed" not in [event["what"] for event in open_run(tmp_path / "run").events]


def test_what_fails_in_it_ends_no_training_and_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("a look that fails")

    monkeypatch.setattr("grpodyn.forecasting.stopping.look", fails)
    trainer = train(tmp_path, [EarlyStop(act=True), Recorder(tmp_path / "run", LIGHT)], steps=20)
    assert trainer.state.global_step == 20
    events = [event for event in open_run(tmp_path / "run").events if event["what"] == "early stop failed"]
    # The first of its kind, at the first look: 10 rows.
    assert [event["step"] for event in events] == [10]
    assert "a look that fails" in events[0]["why"]


def test_a_writer_that_fails_ends_no_training_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    recorder = Recorder(tmp_path / "run", LIGHT)
    monkeypatch.setattr("grpodyn.training.early_stop.EarlyStop._write", fails)
    monkeypatch.setattr("grpodyn.training.early_stop.EarlyStop._note", fails)
    assert train(tmp_path, [EarlyStop(act=True), recorder], steps=20).state.global_step == 20


@pytest.mark.parametrize(("scale", "stops"), [(1.0, True), (3.0, False)])
def test_a_reward_above_one_is_not_taken_for_solved(tmp_path: Path, scale: float, stops: bool) -> None:
    # .95 of 1 is a solved task, whose groups are all right; of 2.85 nothing says that it is the top.
    def course(step: int) -> dict[str, float]:
        reward = scale * (0.95 - 0.6 * math.exp(-step / 8) + 0.014 * math.sin(step * 12.9898))
        return {"reward": reward, "frac_reward_zero_std": min(0.95, 0.1 + 0.02 * step), "grad_norm": 1.0}

    stop = EarlyStop(act=True)
    train(tmp_path, [stop, Recorder(tmp_path / "run", LIGHT)], course)
    assert (stop.decision is not None) is stops
    if not stops:
        assert "groups without spread" in manifest_of(tmp_path)["recorder"]["early_stop"]["last_look"]["why"]
