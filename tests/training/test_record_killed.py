"""`grpodyn record` as a process of its own: kill -9 and resume, Ctrl-C, JSON on standard output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.trace.commit import Commit
from grpodyn.trace.reader import open_run
from grpodyn.training.checkpoints import FOLDER, last_whole
from tests.schema import must_fit

STEPS = 16
ARGUMENTS = [
    "--run-dir", "run",
    "--set", "grpo.per_device_train_batch_size=16",
    "--set", "grpo.num_generations=4",
    "--set", f"grpo.max_steps={STEPS}",
    "--set", "grpo.save_steps=4",
    "--set", "evaluate.prompts=20",
]  # fmt: skip
RESUME = ["--run-dir", "run", "--resume"]

pytestmark = pytest.mark.slow


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from grpodyn.cli.app import main; main()", "record", *arguments]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def committed_steps(run: Path) -> int:
    commit = Commit.read(run) if run.is_dir() else None
    return commit.rows.get("tensors", 0) if commit is not None else 0


def wait_for_steps(process: subprocess.Popen[str], run: Path, steps: int) -> None:
    deadline = time.monotonic() + 300
    while committed_steps(run) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run has not got that far"
        time.sleep(0.01)


# 1 is before the first checkpoint; the delay spreads the kills over a step, a flush and a checkpoint.
@pytest.mark.parametrize(("steps", "delay"), [(1, 0.0), (5, 0.05), (8, 0.15), (10, 0.3)])
def test_a_killed_run_loses_nothing_committed_and_goes_on(tmp_path, monkeypatch, steps: int, delay: float) -> None:
    path = tmp_path / "run"
    process = start(tmp_path, *ARGUMENTS)
    wait_for_steps(process, path, steps)
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the run ended before it was killed"

    committed = committed_steps(path)
    killed = open_run(path)
    assert killed.status == "interrupted"
    assert killed.tensors["step"].values.tolist() == list(range(1, committed + 1))
    # The recorder commits a step before its checkpoint is written, so no checkpoint is ahead of the record.
    checkpoint = last_whole(path / FOLDER)
    resumed_from = 0 if checkpoint is None else checkpoint[0]
    assert resumed_from <= committed

    if checkpoint is None:
        resumed = start(tmp_path, *RESUME)
        out, error = resumed.communicate(timeout=300)
        assert resumed.returncode == 0, error
    else:
        # The end of the first process is what is tried here; the second may be this one.
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        done = CliRunner().invoke(build(), ["record", *RESUME])
        assert done.exit_code == 0, done.output
        out = done.stdout
    assert ("no checkpoint yet" if checkpoint is None else f"checkpoint of step {resumed_from}") in out
    whole = open_run(path)
    assert whole.status == "finished"
    assert whole.problems == []
    assert whole.tensors["step"].values.tolist() == list(range(1, STEPS + 1))
    segments = np.where(np.arange(1, STEPS + 1) <= resumed_from, 0, 1)
    assert whole.tensors["segment"].values.tolist() == segments.tolist()
    assert not np.isnan(whole.tensors["update_norm"].values).any()
    assert whole.rollouts["step"].values.tolist() == list(range(1, STEPS + 1))


def test_ctrl_c_on_the_process_exits_zero_and_says_how_to_go_on(tmp_path) -> None:
    path = tmp_path / "run"
    process = start(tmp_path, *ARGUMENTS)
    wait_for_steps(process, path, 2)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert "finishing this step" in error
    stopped = open_run(path)
    assert stopped.status == "stopped_early"
    assert f"stopped early at step {stopped.last_step}" in out
    assert "grpodyn record --resume --run-dir run" in out
    checkpoint = last_whole(path / FOLDER)
    assert checkpoint is not None
    assert checkpoint[0] == stopped.last_step < STEPS


def test_json_stands_alone_on_standard_output(tmp_path) -> None:
    process = start(tmp_path, *ARGUMENTS, "--set", "grpo.max_steps=2", "--json")
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    summary = json.loads(out)
    must_fit("record", summary)
    assert summary["status"] == "finished"
    assert summary["last_step"] == 2
    assert summary["before"]["step"] == 0
    assert summary["after"]["step"] == 2
    assert "step 2/2" in error
