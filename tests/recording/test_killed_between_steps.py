"""A step's rows are on disk a second after the step, however long the next one takes to begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from grpodyn import open_run

SCRIPT = """
import sys, time
import torch
from torch import nn
from grpodyn import Recorder
from grpodyn.config.record import RecordConfig

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
with Recorder(sys.argv[1]).attach(net, optimizer) as recorder:
    for step in range(3):
        net(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        recorder.step({"loss": 1.0})
    print("between steps", flush=True)
    time.sleep(600)
"""


def test_a_kill_between_two_steps_loses_nothing_that_is_a_second_old(tmp_path: Path) -> None:
    """An evaluation, or the sampling of the next batch, may take minutes: the last step's row does not wait for it."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "between steps"
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline and open_run(tmp_path / "run").last_step < 3:
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
    run = open_run(tmp_path / "run")
    assert run.status == "interrupted"
    assert run.tensors.step.values.tolist() == [1, 2, 3]
    assert np.isfinite(run.tensors["update_norm"].values[-1]).all()
