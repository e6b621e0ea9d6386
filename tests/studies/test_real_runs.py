"""Sweeps that really train, as processes: a failing arm, an end inside a run, Ray."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpodyn.studies.index import INDEX
from tests.schema import must_fit

SMALL = {
    "grpo.max_steps": 2,
    "grpo.max_completion_length": 8,
    "grpo.use_cpu": True,
    "grpo.save_strategy": "steps",
    "record.preset": "light",
    "evaluate": {"prompts": 20, "temperatures": [1.0]},
}


COMMAND = [sys.executable, "-m", "grpodyn", "sweep", "study.yaml", "-o", "out", "--json"]


def sweep(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *options], cwd=folder, text=True, capture_output=True, check=False, timeout=500)


def test_a_failing_arm_is_reported_and_the_other_one_is_trained(write, tmp_path):
    write(set=SMALL, arms={"good": {}, "bad": {"grpo.optim": "adamm"}}, seeds=[1])
    done = sweep(tmp_path, "--workers", "1")
    assert done.returncode == 3
    result = json.loads(done.stdout)
    must_fit("sweep", result)
    assert {run["name"]: run["state"] for run in result["runs"]} == {"good-s1": "done", "bad-s1": "failed"}
    bad = next(run for run in result["runs"] if run["name"] == "bad-s1")
    assert "adamm" in bad["error"]
    assert "bad-s1: failed" in done.stderr
    assert result["arms"][0]["values"]["heldout/accuracy"]["value"] > 0
    assert result["versions"]["trl"]


@pytest.mark.slow
def test_a_request_to_end_inside_a_run_leaves_a_checkpoint_from_which_the_next_start_goes_on(write, tmp_path):
    write(set={**SMALL, "grpo.max_steps": 30}, arms={"only": {}}, seeds=[1])
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(COMMAND, cwd=tmp_path, stdout=quiet, stderr=quiet)
    log = tmp_path / "out" / "logs" / "only-s1.log"
    for _ in range(3000):
        if log.exists() and "step 1/30" in log.read_text():
            break
        time.sleep(0.1)
    # Not Ctrl-C: what a script starts in the background ignores that.
    process.terminate()
    assert process.wait(timeout=300) == 130
    (entry,) = json.loads((tmp_path / "out" / INDEX).read_text())["entries"]
    assert entry["state"] == "interrupted"
    manifest = json.loads((tmp_path / "out" / "only-s1" / "run.json").read_text())
    assert manifest["status"] == "stopped_early"
    again = sweep(tmp_path)
    assert again.returncode == 0
    assert "going on from the checkpoint of step" in log.read_text()
    manifest = json.loads((tmp_path / "out" / "only-s1" / "run.json").read_text())
    assert (manifest["status"], len(manifest["segments"])) == ("finished", 2)


@pytest.mark.slow
def test_ray_trains_the_same(write, tmp_path):
    pytest.importorskip("ray")
    write(set=SMALL, arms={"a": {}, "b": {"grpo.optim": "adamm"}}, seeds=[1])
    done = sweep(tmp_path, "--on", "ray")
    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert {run["name"]: run["state"] for run in result["runs"]} == {"a-s1": "done", "b-s1": "failed"}
