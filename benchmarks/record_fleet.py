"""Records the runs that diagnosis and forecasts are judged on: healthy ones of many settings, and injected faults.

    python benchmarks/record_fleet.py FOLDER [--healthy 64] [--workers 2]

Each run is a `grpodyn record` of the embedded model on one thread, about 40 seconds; a run that is there is left as it
is, so the script goes on where it stopped. Names say what a run is: `healthy-…`, `fault-<fault>-s<seed>`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LORA = HERE.parent / "configs" / "embedded_lora.yaml"
EVERY_RUN = ("evaluate.every=10", "evaluate.prompts=300", "evaluate.temperatures=[1.0]")
FAULT_STEPS, FAULT_SEEDS = 60, range(3)
FAULTS: dict[str, tuple[str, ...]] = {
    "lengthcap": ("grpo.max_completion_length=2",),
    "constreward": ('rewards=["faulty_rewards:constant"]',),
    "impossible": ('rewards=["faulty_rewards:impossible"]',),
    "bf16lowlr": ("model.dtype=bfloat16", "grpo.learning_rate=1e-7"),
    "lr30": ("grpo.learning_rate=9e-4",),
    "opposing": ("rewards=[exact_match, {name: 'faulty_rewards:no_digits', weight: 3.0}]",),
    "longreward": ("rewards=[exact_match, {name: 'faulty_rewards:long', weight: 3.0}]",),
    "nanreward": ("rewards=[exact_match, 'faulty_rewards:nan_later']",),
    "loranotrain": ("grpo.learning_rate=1e-9",),
}


@dataclass(frozen=True)
class Job:
    """One run."""

    name: str
    lora: bool
    settings: tuple[str, ...]


def healthy(index: int) -> Job:
    """Return the healthy run of an index: rate, group size, length, schedule, divergence penalty, adapter in turn."""
    rate = (3e-5, 2e-5, 5e-5, 1e-5)[index % 4]
    group = (8, 16, 4)[index // 4 % 3]
    steps = 120 if rate == 1e-5 else (120, 120, 120, 100)[index // 2 % 4]
    schedule = ("constant", "linear")[index // 8 % 2]
    beta = (0.0, 0.0, 0.02)[index // 3 % 3]
    lora = index % 5 == 4
    settings = (
        f"grpo.learning_rate={rate * 3 if lora else rate}",
        f"grpo.num_generations={group}",
        f"grpo.max_steps={steps}",
        f"grpo.lr_scheduler_type={schedule}",
        f"grpo.beta={beta}",
        f"seed={100 + index}",
        f"record.preset={'standard' if index % 4 == 0 else 'light'}",
    )
    return Job(
        f"healthy-{'lora' if lora else 'full'}-g{group}-lr{rate:g}-{schedule}-b{beta:g}-s{index}", lora, settings
    )


def faulty(fault: str, seed: int) -> Job:
    """Return a run with a fault."""
    settings = (*FAULTS[fault], f"grpo.max_steps={FAULT_STEPS}", f"seed={500 + seed}", "record.preset=standard")
    return Job(f"fault-{fault}-s{seed}", fault == "loranotrain", settings)


def record(job: Job, folder: Path) -> None:
    """Record a run, unless it is there; one that fails leaves its log alone."""
    run_dir, log = folder / job.name, folder / f"{job.name}.log"
    if (run_dir / "run.json").exists():
        return
    command = [sys.executable, "-m", "grpodyn", "record", *([str(LORA)] if job.lora else []), "--run-dir", str(run_dir)]
    command += [part for setting in (*EVERY_RUN, *job.settings) for part in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    with log.open("w") as output:
        done = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        shutil.rmtree(run_dir, ignore_errors=True)
    print(f"{job.name}: {'recorded' if done.returncode == 0 else f'failed, see {log}'}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Record what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--healthy", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    faults = [faulty(fault, seed) for seed in FAULT_SEEDS for fault in FAULTS]
    both = itertools.zip_longest([healthy(i) for i in range(options.healthy)], faults)
    jobs = [job for pair in both for job in pair if job]
    with ThreadPoolExecutor(options.workers) as workers:
        list(workers.map(lambda job: record(job, options.folder), jobs))


if __name__ == "__main__":
    main()
