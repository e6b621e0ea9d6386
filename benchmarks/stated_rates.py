"""Runs the simulations behind stated rates (coverage, false confirmations, power) with their full counts.

`make test` repeats each a fraction as often; what is asserted is the same. Options of pytest can follow.

python benchmarks/stated_rates.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALL = "GRPODYN_ALL_REPEATS"
"""What `tests/simulation/repeats.py` reads."""


def simulating() -> list[str]:
    """Return the test files that repeat a simulation."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "simulation.repeats import" in file.read_text(encoding="utf-8")]


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "--durations=0", "--durations-min=1", *simulating(), *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, env=os.environ | {ALL: "1"}, check=False).returncode)
