"""The spectra of the last step: waited for within a budget, and what it does not last for is named in the run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.patience import Patience


def train(recorder: Recorder, steps: int = 4, *, hurried: bool = False) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(5, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    with recorder.attach(net, optimizer, max_steps=steps):
        for _ in range(steps):
            net(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
            recorder.step({"loss": 1.0})
            if hurried:
                recorder.hurry()


def test_without_time_the_run_is_whole_but_for_the_last_spectra(tmp_path: Path):
    train(Recorder(tmp_path / "run", RecordConfig(final_seconds=0.0)))
    run = open_run(tmp_path / "run")
    assert (run.status, run.last_step, run.problems) == ("finished", 4, [])
    assert run.spectra.step.values.tolist() == [1]
    assert run.tensors["delta_norm"].isel(row=-1).notnull().all()
    skipped = {entry["what"]: entry["why"] for entry in run.manifest.recorder["skipped"]}
    assert "record.final_seconds (0)" in skipped["spectra of 3 tensors at the last step"]
    assert [event["step"] for event in run.events if "at the last step" in event["what"]] == [4]


def test_an_interrupt_while_waiting_ends_the_run_whole(tmp_path: Path, monkeypatch):
    """Ctrl-C in a script of one's own: the exception passes, and the record is closed with what there is."""

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Patience, "lasts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(Recorder(tmp_path / "run"))
    run = open_run(tmp_path / "run")
    assert (run.status, run.problems) == ("stopped_early", [])
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4]


def test_a_stop_that_was_asked_for_still_gets_what_takes_no_time(tmp_path: Path):
    train(Recorder(tmp_path / "run"), hurried=True)
    assert open_run(tmp_path / "run").spectra.step.values.tolist() == [1, 4]
