"""The file that W_0 is mapped from is written to while training runs: named and given up, never a crash or a wrong W_0.

Each case trains in a process of its own: a mapping beyond the end of a file that was cut ends a process by a signal.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import open_run
from grpodyn.recording.checkpoint_files import CheckpointFiles
from grpodyn.trace.reader import Run

SCRIPT = """
import os, sys
from pathlib import Path
import torch
from transformers import AutoModelForCausalLM
from grpodyn import Recorder
from grpodyn.config.record import RecordConfig

def train(folder, run_dir, harm):
    weights = folder / "model.safetensors"
    model = AutoModelForCausalLM.from_pretrained(folder)
    for parameter in model.parameters():
        # transformers maps the file too: a model that still lies in it would not survive by itself.
        parameter.data = parameter.data.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with Recorder(run_dir, RecordConfig(preset="full")).attach(model, optimizer, max_steps=6) as recorder:
        for step in range(6):
            if step == 3:
                recorder.writer.flush()
                if harm == "cut":
                    os.truncate(weights, 100)
                elif harm == "overwritten":
                    content = weights.read_bytes()
                    with weights.open("r+b") as file:
                        file.seek(len(content) // 2)
                        file.write(bytes(len(content) - len(content) // 2))
                elif harm == "saved again":
                    model.save_pretrained(folder)
                elif harm == "replaced":
                    other = weights.with_suffix(".new")
                    other.write_bytes(b"not weights at all")
                    other.replace(weights)
                elif harm == "removed":
                    weights.unlink()
            ids = torch.arange(8)[None]
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()

# Forked, so that what they all import is imported once.
for harm in sys.argv[2:]:
    process = os.fork()
    if process == 0:
        train(Path(sys.argv[1]) / harm / "model", Path(sys.argv[1]) / harm / "run", harm)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    print(f"{harm}: {os.waitstatus_to_exitcode(status)}", flush=True)
"""
HARMS = ("cut", "overwritten", "replaced", "removed", "saved again")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, make_model) -> Callable[[str], Run]:
    """Every case, in a process of its own; gives its run once that process has ended well."""
    folder = tmp_path_factory.mktemp("rewritten")
    for harm in HARMS:
        torch.manual_seed(0)
        make_model().save_pretrained(folder / harm / "model")
    command = [sys.executable, "-c", SCRIPT, str(folder), *HARMS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    def of(harm: str) -> Run:
        assert f"{harm}: 0" in done.stdout.splitlines(), done.stdout + done.stderr
        return open_run(folder / harm / "run")

    return of


@pytest.mark.parametrize("harm", ["cut", pytest.param("overwritten", marks=pytest.mark.slow)])
def test_written_to_in_place(trained: Callable[[str], Run], harm: str) -> None:
    run = trained(harm)
    assert (run.status, run.last_step) == ("finished", 6)
    delta = run.tensors["delta_norm"].values
    assert np.isfinite(delta[:3]).all()
    assert np.isnan(delta[3:]).all(), "nothing is measured against weights that are not W_0"
    assert np.isfinite(run.tensors["update_norm"].values).all()
    reasons = {entry["what"]: entry["why"] for entry in run.manifest.recorder["skipped"]}
    (why,) = [why for what, why in reasons.items() if what.startswith("displacement of")]
    assert "model.safetensors" in why
    assert "was written to" in why
    assert [event["step"] for event in run.events if "not recorded any more" in event["what"]] == [4]
    assert not [event for event in run.events if "fault" in event["what"]]


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["replaced", "removed", "saved again"])
def test_another_file_under_its_name_harms_nothing(trained: Callable[[str], Run], harm: str) -> None:
    """The mapped file lives on without its name."""
    run = trained(harm)
    delta = run.tensors["delta_norm"].values
    assert np.isfinite(delta).all()
    assert (np.diff(np.square(delta).sum(1)) > 0).all(), "further from the start with each step"


def test_descriptors_are_closed_with_their_owner(tmp_path: Path, make_model) -> None:
    make_model().save_pretrained(tmp_path / "model")

    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = held()
    files = CheckpointFiles(tmp_path / "model")
    assert files.rewritten() is None
    del files
    assert held() == before
