"""The callback says each finding once and writes it into the run; it never stops a training."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerControl

from grpodyn.diagnosis.callback import DiagnoseLive
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.writer import TraceWriter

CUT = {"completions/clipped_ratio": 1.0, "completions/mean_length": 8.0, "reward": 0.0, "frac_reward_zero_std": 1.0}
ARGUMENTS = SimpleNamespace(to_dict=lambda: {"max_completion_length": 8, "beta": 0.0, "num_iterations": 1})


def feed(callback: DiagnoseLive, rows: int, first_rank: bool = True) -> TrainerControl:
    control = TrainerControl()
    state = SimpleNamespace(global_step=0, is_world_process_zero=first_rank)
    callback.on_train_begin(ARGUMENTS, state, control, model=SimpleNamespace())
    for step in range(1, rows + 1):
        state.global_step = step
        callback.on_log(ARGUMENTS, state, control, logs={**CUT, "loss": 0.0, "grad_norm": 0.0, "note": "text"})
    return control


def test_a_finding_is_said_once_and_is_an_event_of_the_run(tmp_path: Path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    said: list[str] = []
    control = feed(DiagnoseLive(SimpleNamespace(writer=writer), said.append), 60)
    writer.add_row("metrics", 60, {"reward": 0.0})
    writer.close("finished")
    assert len([line for line in said if "cut off" in line]) == 1
    assert said[0].startswith("critical: Completions are cut off by the length cap since step 1")
    events = [event for event in open_run(tmp_path / "run").events if event["what"] == "finding truncation"]
    assert [(event["step"], event["severity"]) for event in events] == [(10, "critical")]
    assert not control.should_training_stop


def test_without_a_recorder_it_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("grpodyn").propagate = True
    with caplog.at_level(logging.WARNING, logger="grpodyn"):
        feed(DiagnoseLive(), 20)
    assert any("cut off" in record.message for record in caplog.records)


def test_other_ranks_are_silent() -> None:
    said: list[str] = []
    feed(DiagnoseLive(say=said.append), 20, first_rank=False)
    assert not said


def test_a_check_that_fails_raises_nothing_into_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("a rule that fails")

    monkeypatch.setattr("grpodyn.diagnosis.live.diagnose", fails)
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    feed(DiagnoseLive(SimpleNamespace(writer=writer), lambda _: None), 40)
    writer.add_row("metrics", 40, {"reward": 0.0})
    writer.close("finished")
    failed = [event for event in open_run(tmp_path / "run").events if event["what"] == "diagnosis failed"]
    # The rules run at rows 10, 20, 30 and 40; the first failure of a kind is written down.
    assert [event["step"] for event in failed] == [10]
    assert "a rule that fails" in failed[0]["why"]


def test_a_place_to_say_it_that_fails_raises_nothing_into_the_training(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []

    def fails(line: str) -> None:
        said.append(line)
        raise OSError("the terminal is gone")

    def closed(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    logging.getLogger("grpodyn").propagate = True
    with caplog.at_level(logging.WARNING, logger="grpodyn"):
        control = feed(DiagnoseLive(SimpleNamespace(writer=SimpleNamespace(event=closed)), fails), 40)
    assert said, "there was something to say"
    assert not control.should_training_stop
    logged = [record.message for record in caplog.records]
    assert any(line.startswith("grpodyn: diagnosis failed, training goes on: OSError: the terminal") for line in logged)
    assert any("the report of a failure failed, training goes on: OSError: no space left" in line for line in logged)
