"""What a live view costs on a large run that is being written: 3,000 tensors × 2,000 rows, after each new row.

    python benchmarks/watch.py [--tensors 3000] [--rows 2000]

The first look reads everything that it needs; the others only what is new. A frame at 80 × 24 is drawn at each.
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

PROBES = ("update_norm", "update_ratio", "grad_norm", "delta_norm")
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
PROMPTS, GROUP = 8, 8


class SyntheticRun:
    """A run whose reward rises along a logistic curve, written row by row."""

    def __init__(self, run_dir: Path, tensors: int, planned: int) -> None:
        self._rng = np.random.default_rng(0)
        self._tensors, self._planned = tensors, planned
        self._writer = TraceWriter.create(run_dir, Manifest(trainer={"arguments": {"max_steps": planned}}))
        self._writer.declare_tensors([_info(i) for i in range(tensors)])
        self._writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in PROBES})
        self._writer.declare_reward_functions(["exact_match"])

    def step(self, step: int) -> None:
        """Write what one step records."""
        rng = self._rng
        chance = 0.1 + 0.6 / (1 + np.exp(-(step - self._planned / 3) * 12 / self._planned))
        reward = (rng.random((PROMPTS, GROUP)) < chance).astype(float)
        advantage = reward - reward.mean(axis=1, keepdims=True)
        shown = {"length": np.full(reward.shape, 50.0), "terminated": np.ones(reward.shape), "advantage": advantage}
        rollout = {"prompt_id": np.arange(PROMPTS), "reward": reward, "rewards": reward[:, :, None], **shown}
        self._writer.add_row("tensors", step, {name: rng.random(self._tensors) for name in PROBES})
        self._writer.add_row("rollouts", step, rollout)
        logged = {"reward": float(reward.mean()), "loss": float(rng.random()), "grad_norm": float(rng.random())}
        logged |= {"entropy": 1.0, "kl": 0.01, "learning_rate": 1e-6, "completions/clipped_ratio": 0.0}
        logged |= {f"other/{i}": float(rng.random()) for i in range(20)}
        self._writer.add_row("metrics", step, {**logged, "recorder_seconds": 0.02, "step_seconds": 1.5})

    def flush(self) -> None:
        """Wait until all is committed."""
        self._writer.flush()

    def close(self) -> None:
        """End the run."""
        self._writer.close("finished")


def _info(i: int) -> TensorInfo:
    layer, module = i // len(MODULES), MODULES[i % len(MODULES)]
    name = f"model.layers.{layer}.{module}.weight"
    return TensorInfo(name, layer, module, "model.layers", "linear", 4096, 4096, "float32", True, "full")


def main() -> None:
    """Time the first look and ten more, each after a new row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=2000)
    options = parser.parse_args()
    from rich.console import Console  # noqa: PLC0415

    from grpodyn.cli.watch_view import frame  # noqa: PLC0415
    from grpodyn.watching import Follower  # noqa: PLC0415

    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        run = SyntheticRun(run_dir, options.tensors, options.rows + 1000)
        for step in range(1, options.rows + 1):
            run.step(step)
        run.flush()
        follower = Follower(run_dir)
        wall, cpu = [], []
        for step in range(options.rows + 1, options.rows + 12):
            began, spent = time.perf_counter(), time.process_time()
            snapshot = follower.look()
            if snapshot is None:
                raise SystemExit(f"the row of step {step - 1} was not seen")
            console.print(frame(snapshot, 80, 24))
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - spent)
            read = follower.rows_read
            run.step(step)
            run.flush()
        run.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{options.tensors} tensors × {options.rows} rows; rows of logs and rollouts read in the last look: {read}")
    print(f"first look, with imports    {wall[0]:6.2f} s   {cpu[0]:6.2f} CPU s")
    print(f"a refresh, median of 10     {statistics.median(wall[1:]):6.2f} s   {statistics.median(cpu[1:]):6.2f} CPU s")
    print(f"a refresh, worst of 10      {max(wall[1:]):6.2f} s   {max(cpu[1:]):6.2f} CPU s   budget 0.5 s")
    print(f"peak memory                 {peak:6.2f} GB")


if __name__ == "__main__":
    main()
