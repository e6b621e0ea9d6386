"""A small synthetic run, written by the real writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

PROBES = ("grad_norm", "update_norm")


def tensor_infos(count: int) -> list[TensorInfo]:
    """`count` linear tensors, seven a layer."""
    modules = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return [
        TensorInfo(
            name=f"model.layers.{i // 7}.{modules[i % 7]}.weight",
            layer=i // 7,
            module=modules[i % 7],
            stack="model.layers",
            kind="linear",
            rows=8,
            cols=4,
            dtype="float32",
            trainable=True,
            source="full",
        )
        for i in range(count)
    ]


def probe_row(step: int, tensors: int, probe: int = 0) -> np.ndarray[Any, Any]:
    """What `update_norm` and its like hold at a step: a function of step and tensor that no other pair shares."""
    return (1000.0 * step + np.arange(tensors) + 0.25 * probe).astype(np.float32)


def declare(writer: TraceWriter, tensors: int) -> None:
    writer.declare_tensors(tensor_infos(tensors))
    writer.declare_layers([0, 1], ["model.layers"] * 2)
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor"), unit="1") for name in PROBES})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    writer.declare_arrays("spectra", {"singular_values": ArraySpec(("row", "tensor", "k"))})
    writer.declare_reward_functions(["exact", "format"])


def add_step(writer: TraceWriter, step: int, tensors: int) -> None:
    """One step's rows in every group."""
    writer.add_row("tensors", step, {name: probe_row(step, tensors, i) for i, name in enumerate(PROBES)})
    writer.add_row("layers", step, {"layer_delta": [0.5 * step, 0.25 * step]})
    rewards = np.full((3, 4, 2), float(step))
    rollouts = {
        "prompt_id": [step, 2**53 + step, -7],
        "reward": rewards.sum(-1),
        "length": np.full((3, 4), 12.0),
        "terminated": np.ones((3, 4)),
        "advantage": np.zeros((3, 4)),
        "rewards": rewards,
    }
    writer.add_row("rollouts", step, rollouts)
    writer.add_row("metrics", step, {"loss": 1 / step, "recorder_seconds": 0.01, "step_seconds": 1.0}, time=1e9 + step)
    if step % 5 == 0:
        values = {"singular_values": np.full((tensors, 3), float(step)), "measured_step": np.full(tensors, step)}
        writer.add_row("spectra", step, values)


def expected(steps: int, tensors: int, probe: int) -> np.ndarray[Any, Any]:
    """`probe_row` of steps 1 … `steps`, stacked."""
    return np.stack([probe_row(step, tensors, probe) for step in range(1, steps + 1)])


@pytest.fixture
def synthetic() -> SimpleNamespace:
    """The functions above: test files cannot import a conftest."""
    functions = (tensor_infos, probe_row, declare, add_step, expected)
    return SimpleNamespace(PROBES=PROBES, **{function.__name__: function for function in functions})


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a run of `steps` steps; `status=None` leaves it as a killed process would."""

    def make(name: str = "run", steps: int = 12, tensors: int = 9, status: str | None = "finished") -> Path:
        writer = TraceWriter.create(tmp_path / name, Manifest(model={"name": "synthetic"}))
        declare(writer, tensors)
        for step in range(1, steps + 1):
            add_step(writer, step, tensors)
        if status is None:
            assert writer.flush()
            writer._end(lambda: None)
        else:
            writer.close(status)  # type: ignore[arg-type]
        return tmp_path / name

    return make
