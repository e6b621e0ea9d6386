"""A small run with something missing in every group, written by the real writer."""

import numpy as np
import pytest

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

TENSORS = [
    TensorInfo(
        name=f"model.layers.{layer}.{module}.weight",
        layer=layer,
        module=module,
        stack="model.layers",
        kind="linear",
        rows=8,
        cols=4,
        dtype="bfloat16",
        trainable=True,
        source="full",
    )
    for layer in range(2)
    for module in ("q_proj", "grün_proj")
]


@pytest.fixture
def run(tmp_path):
    writer = TraceWriter.create(tmp_path / "a run", Manifest(model={"name": "s", "config": {"long": "x" * 200_000}}))
    writer.declare_tensors(TENSORS)
    writer.declare_layers([0, 1], ["model.layers"] * 2)
    writer.declare_arrays("tensors", {"update_norm": ArraySpec(("row", "tensor"), unit="1")})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    writer.declare_arrays("spectra", {"singular_values": ArraySpec(("row", "tensor", "k"))})
    writer.declare_reward_functions(["exact", "format"])
    for step in (1, 2, 3):
        writer.add_row("tensors", step, {"update_norm": [step, np.nan, np.inf, 0.1]})
        writer.add_row("layers", step, {"layer_delta": [0.5 * step, 0.25]})
        rewards = np.arange(12, dtype=float).reshape(2, 3, 2) + step
        rollouts = {
            "prompt_id": [2**53 + step, -7],
            "reward": rewards.sum(-1),
            "length": np.full((2, 3), 12.0),
            "terminated": np.ones((2, 3)),
            "advantage": np.zeros((2, 3)),
            "rewards": rewards,
        }
        writer.add_row("rollouts", step, rollouts)
        writer.add_row("metrics", step, {"loss": 1 / step} | ({"kl": 0.1} if step == 2 else {}), time=1e9 + step)
    writer.add_row("spectra", 3, {"singular_values": np.arange(12.0).reshape(4, 3), "measured_step": [3] * 4})
    writer.close("finished")
    return open_run(tmp_path / "a run")
