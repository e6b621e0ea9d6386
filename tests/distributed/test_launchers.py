"""`accelerate launch` starts somebody's script on two processes, and it is recorded unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import open_run, registry
from tests.distributed.launching import ENVIRONMENT

SCRIPT = """
import sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
config = Qwen2Config(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2,
                     num_key_value_heads=1, attention_dropout=0.1)
data = [{"input_ids": torch.arange(i, i + 6) % 16, "labels": torch.arange(i, i + 6) % 16} for i in range(16)]
arguments = TrainingArguments("out", max_steps=4, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
                              log_level="error", logging_steps=1, per_device_train_batch_size=2, learning_rate=1e-2)
trainer = Trainer(Qwen2ForCausalLM(config), arguments, train_dataset=data)
trainer.train()
rank = arguments.process_index
assert torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo"
# Not printed: what two ranks print into one pipe may stand in the middle of each other's lines.
with open(f"{sys.argv[1]}-rank{rank}.txt", "w") as file:
    file.write(f"{rank} of {torch.distributed.get_world_size()} {sys.argv[1:]}")
torch.save([p.detach() for p in trainer.model.parameters()], f"{sys.argv[1]}-rank{rank}.pt")
"""

# On a machine without a GPU, `--cpu --num_processes 2` starts one process, for it leaves the others to MPI. What is
# said to be for several GPUs starts the processes itself, and the script's own `use_cpu` lets them talk through gloo.
ACCELERATE = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"]
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def launched(folder: Path, launcher: list[str], *words: str) -> str:
    command = [sys.executable, "-m", *launcher, *words]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_accelerate_records_an_unchanged_script_on_two_ranks(tmp_path: Path) -> None:
    """At the preset `full`, and both ranks end with the weights that they end with alone."""
    (tmp_path / "train.py").write_text(SCRIPT)
    launched(tmp_path, TORCHRUN, "train.py", "plain")
    record = ["-m", "grpodyn", "record", "--set", "record.preset=full", "--run-dir", "runs/a", "--"]
    said = launched(tmp_path, ACCELERATE, *record, "train.py", "recorded")
    for rank in (0, 1):
        assert (tmp_path / f"recorded-rank{rank}.txt").read_text() == f"{rank} of 2 ['recorded']"
    assert said.count("grpodyn: recorded into") == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]
    recorded = open_run(tmp_path / "runs" / "a")
    assert recorded.manifest.world == {"ranks": 2, "backend": "gloo", "sharding": "replicated"}
    assert (recorded.status, recorded.last_step) == ("finished", 4)
    for rank in (0, 1):
        ours, plain = (torch.load(tmp_path / f"{name}-rank{rank}.pt") for name in ("recorded", "plain"))
        assert all(torch.equal(a, b) for a, b in zip(ours, plain, strict=True))
    for probe in registry.probes().values():
        values = getattr(recorded, probe.group)[probe.name].values
        # Its prompts are those of a generation, of which this script has none.
        assert np.isfinite(values).any() == (probe.name != "activation_shift"), probe.name
