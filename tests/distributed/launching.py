"""Starts trainings on several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("train.py")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("WORLD_SIZE", "RANK")} | {
    "OMP_NUM_THREADS": "1",
    # The script finds this folder by its name.
    "PYTHONPATH": str(ROOT),
    "TOKENIZERS_PARALLELISM": "false",
}


def trained(folder: Path, ranks: int, *ways: str) -> str:
    """Train in several ways on some ranks, one after the other; return what was said. None of them may hang."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launcher, str(SCRIPT), str(folder), *ways]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
