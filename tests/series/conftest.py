from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.writer import TraceWriter


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Run]:
    """Write rows through the real writer and open the run."""

    def write(
        metrics: Mapping[int, Mapping[str, float]] | None = None,
        rollouts: Mapping[int, Any] | None = None,
        evaluations: Mapping[int, Mapping[str, float]] | None = None,
        events: tuple[tuple[int, str, str], ...] = (),
        resumed: tuple[int, Mapping[int, Mapping[str, float]]] | None = None,
        **manifest: Any,
    ) -> Run:
        directory = tmp_path / "run"
        writer = TraceWriter.create(directory, Manifest(**manifest))
        _fill(writer, metrics or {}, rollouts or {}, evaluations or {})
        for step, what, why in events:
            writer.event(step, what, why)
        writer.close("finished")
        if resumed is not None:
            start, later = resumed
            writer = TraceWriter.resume(directory, start)
            _fill(writer, later, {}, {})
            writer.close("finished")
        return open_run(directory)

    return write


def _fill(writer: TraceWriter, metrics: Any, rollouts: Any, evaluations: Any) -> None:
    for step, values in metrics.items():
        writer.add_row("metrics", step, values)
    for step, values in evaluations.items():
        writer.add_row("evaluations", step, values)
    if rollouts:
        writer.declare_reward_functions(["exact_match"])
    for step, rewards in rollouts.items():
        reward = np.asarray(rewards, float)
        writer.add_row(
            "rollouts",
            step,
            {
                "prompt_id": np.arange(len(reward)),
                "reward": reward,
                "length": np.full(reward.shape, 5.0),
                "terminated": np.ones(reward.shape),
                "advantage": np.zeros(reward.shape),
                "rewards": reward[..., None],
            },
        )
