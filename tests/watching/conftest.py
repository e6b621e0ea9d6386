from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

MODULES = ("q_proj", "up_proj")


def tensor(layer: int, module: str, **changes: Any) -> TensorInfo:
    name = f"model.layers.{layer}.{module}.weight"
    facts = {"kind": "linear", "rows": 8, "cols": 8, "dtype": "float32", "trainable": True, "source": "full"}
    return TensorInfo(name, layer, module, "model.layers", **{**facts, **changes})


class LiveRun:
    """A run that a test writes step by step: two groups of four, four matrices and a norm."""

    def __init__(self, path: Path, planned: int = 100, moves: bool = True) -> None:
        self.path, self._moves = path, moves
        self.writer = TraceWriter.create(path, Manifest(trainer={"arguments": {"max_steps": planned}}))
        matrices = [tensor(layer, module) for layer in range(2) for module in MODULES]
        self.writer.declare_tensors([*matrices, tensor(0, "norm", kind="norm", cols=1)])
        self.writer.declare_arrays("tensors", {n: ArraySpec(("row", "tensor")) for n in ("update_ratio", "delta_norm")})
        self.writer.declare_reward_functions(["exact_match"])

    def steps(self, first: int, last: int, right: int = 1, **metrics: float) -> None:
        """Write steps: of each batch one group with `right` of four right, and one all wrong."""
        for step in range(first, last + 1):
            reward = np.zeros((2, 4))
            reward[0, :right] = 1.0
            flat = np.full(reward.shape, 5.0)
            batch = {"prompt_id": np.arange(2), "reward": reward, "length": flat, "terminated": np.ones(reward.shape)}
            self.writer.add_row("rollouts", step, {**batch, "advantage": 0 * reward, "rewards": reward[:, :, None]})
            logged = {"reward": float(reward.mean()), "recorder_seconds": 0.01, "step_seconds": 2.0}
            self.writer.add_row("metrics", step, {**logged, **metrics})
            # The norm moves most for its size, and is no matrix; of matrices the fourth.
            ratios, moved = np.array([1e-4, 2e-4, 3e-4, 4e-4, 1.0]), np.arange(5.0) * step
            ratios, moved = self._moves * ratios, self._moves * moved
            held = moved if step % 5 == 0 else np.full(5, np.nan)
            self.writer.add_row("tensors", step, {"update_ratio": ratios, "delta_norm": held})
        self.writer.flush()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveRun]:
    run = LiveRun(tmp_path / "live")
    yield run
    run.writer.close("finished")
