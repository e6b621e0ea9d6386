"""The analysis and its command, on runs written by the real writer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.errors import MissingDataError, UsageError

ARGUMENTS = {"max_steps": 150}


def rewards(n: int = 150, **more: float) -> dict[int, dict[str, float]]:
    rng = np.random.default_rng(0)
    return {
        step: {
            "reward": 0.8 - 0.6 * float(np.exp(-step / 15)) + 0.02 * float(rng.standard_normal()),
            "loss": 0.1,
            **more,
        }
        for step in range(1, n + 1)
    }


def forecast(run: Any, **options: Any) -> Any:
    return registry.analysis("forecast").run(run, **options)


def test_a_plateau_and_the_same_with_a_fault(write_run) -> None:
    run = write_run("sound", metrics=rewards(learning_rate=1e-6), trainer={"arguments": ARGUMENTS})
    assert forecast(run).verdict == "plateau"
    cut_off = rewards(learning_rate=1e-6, **{"completions/clipped_ratio": 0.5})
    assert forecast(write_run("cut", metrics=cut_off, trainer={"arguments": ARGUMENTS})).verdict == "fault"


def test_trls_default_schedule_limits(write_run) -> None:
    metrics = rewards()
    for step, row in metrics.items():
        row["learning_rate"] = 1e-6 * (1 - (step - 1) / 150)
    assert forecast(write_run(metrics=metrics, trainer={"arguments": ARGUMENTS})).verdict == "schedule_limited"


def test_a49_an_unknown_metric_is_an_error_that_lists_the_keys(write_run) -> None:
    with pytest.raises(MissingDataError, match="reward, loss"):
        forecast(write_run(metrics=rewards()), metric="eval/pass@1")


def test_an_empty_run_is_called_empty(write_run) -> None:
    with pytest.raises(MissingDataError, match="is empty"):
        forecast(write_run())


def test_options_pass_through(write_run) -> None:
    run = write_run(metrics=rewards(60), trainer={"arguments": ARGUMENTS})
    result = forecast(run, at_steps=(100,), epsilon=0.05)
    assert result.epsilon == 0.05
    assert set(result.at) == {100}
    with pytest.raises(UsageError, match="planned end"):
        forecast(run, at_steps=(151,))


KEYS = {"verdict", "model", "asymptote", "phases", "remaining_gain", "stop_step", "candidates"}


def test_json_has_the_stable_keys(write_run) -> None:
    run = write_run(metrics=rewards(), trainer={"arguments": ARGUMENTS})
    result = CliRunner().invoke(build(), ["forecast", str(run.path), "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) >= KEYS
    assert set(found["phases"]) == {"slow", "rapid", "plateau"}
    assert set(found["asymptote"]) == {"value", "low", "high", "level"}
    assert {"model", "aicc", "r2", "parameters"} <= set(found["candidates"][0])
    assert len(found["candidates"]) == 6


def test_the_terminal_view(write_run) -> None:
    run = write_run(metrics=rewards(), trainer={"arguments": ARGUMENTS})
    shown = CliRunner().invoke(build(), ["forecast", str(run.path), "--at", "150"], env={"COLUMNS": "120"}).output
    for text in ("verdict: plateau", "asymptote", "exponential", "plateau from step", "▁", "of 150"):
        assert text in shown


def test_a_run_with_few_rows_shows_what_is_missing(write_run) -> None:
    run = write_run(metrics=rewards(4))
    result = CliRunner().invoke(build(), ["forecast", str(run.path)])
    assert result.exit_code == 0
    assert "cannot_tell_yet" in result.output
