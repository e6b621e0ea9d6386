"""Every example runs as its first lines say, and leaves a run that holds what it should."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from grpodyn import open_run
from grpodyn.trace.reader import Run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
QUIET = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def finished(run: Run, steps: int) -> bool:
    return (run.status, run.last_step, run.manifest.recorder["faults"]) == ("finished", steps, {})


def start(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "argv", [name, "run"])
    with warnings.catch_warnings():
        # Of torch and its company, about themselves.
        warnings.simplefilter("ignore")
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_every_example_is_run_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert source.count(f'"{example.name}"') >= 1, f"{example.name} is in no test"


def test_a_loop_of_ones_own(tmp_path, monkeypatch, capsys) -> None:
    start("own_loop.py", tmp_path, monkeypatch)
    run = open_run(tmp_path / "run")
    assert finished(run, 50)
    assert capsys.readouterr().out.count("‖W − W_0‖ = ") == 4  # two layers, weight and bias each


@pytest.mark.slow
def test_a_trl_script_with_one_line_more(tmp_path, monkeypatch) -> None:
    start("trl_one_line.py", tmp_path, monkeypatch)
    run = open_run(tmp_path / "run")
    assert finished(run, 5)
    assert run.rollouts["reward"].sizes["generation"] == 4
    assert np.isfinite(run.metric("reward").values).all()


@pytest.mark.slow
def test_a_lora_run(tmp_path, monkeypatch, capsys) -> None:
    start("trl_lora.py", tmp_path, monkeypatch)
    run = open_run(tmp_path / "run")
    assert finished(run, 5)
    assert run.manifest.lora is not None
    assert run.manifest.lora["r"] == 4
    shown = capsys.readouterr().out.split("‖ΔW‖ = ")
    assert len(shown) == 6
    # At the start B is 0, so that all there is was trained.
    assert float(shown[1].split()[0]) > 0


@pytest.mark.slow
def test_a_script_that_knows_nothing_of_it(tmp_path) -> None:
    words = ["record", "--run-dir", "run", "--", str(EXAMPLES / "plain_trainer.py"), "--steps", "6"]
    done = subprocess.run(
        [sys.executable, "-m", "grpodyn", *words], cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert finished(run, 6)
    assert run.rows["tensors"] > 0
