"""A manifest may be anybody's: fields of another type than the recorder's say nothing, and break no analysis."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from grpodyn import registry
from grpodyn.errors import GrpodynError
from grpodyn.trace.reader import Run
from tests.simulation.recorded import record, rollout

FIELDS: list[dict[str, Any]] = [
    {"trainer": {"arguments": [1]}},
    {"trainer": {"arguments": {"num_generations": "four", "per_device_train_batch_size": [8], "max_steps": "x"}}},
    {"trainer": {"arguments": {"max_steps": -1, "num_train_epochs": float("inf")}}},
    {"config": {"evaluate": [1], "grpo": 5, "lora": 3, "model": "m", "task": "t", "rewards": {"a": 1}}},
    {"config": {"evaluate": {"prompts": "many"}, "grpo": {"max_steps": "x", "num_generations": "four"}}},
    {"world": {"ranks": "two"}},
    {"rewards": [5], "lora": {"r": "x"}},
]


def made(path: Path, fields: dict[str, Any]) -> Run:
    return record(
        path,
        rollouts={step: rollout([[0, 1, 1, 0], [1, 1, 1, 1]]) for step in range(1, 9)},
        metrics={step: {"reward": 0.5, "epoch": step / 8} for step in range(1, 9)},
        evaluations={0: {"heldout/accuracy": 0.1}, 8: {"heldout/accuracy": 0.4, "heldout/pass@2": 0.5}},
        **fields,
    )


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("analysis", ["diagnose", "forecast", "group_size", "power", "run_comparison"])
def test_no_analysis_trips_over_it(tmp_path: Path, analysis: str, fields: dict[str, Any]) -> None:
    axes = ("prompts", "seconds") if analysis == "forecast" else ("step",)
    for axis in axes:
        # That it cannot be told is an answer.
        with contextlib.suppress(GrpodynError):
            registry.analysis(analysis).run(made(tmp_path / axis, fields), axis=axis)
