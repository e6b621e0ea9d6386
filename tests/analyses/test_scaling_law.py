"""The analysis over several runs and its command."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.errors import MissingDataError, UsageError
from tests.schema import must_fit


@pytest.fixture
def sized(write_run, tensor_info):
    def make(size: int, initial: float, stated: bool = True) -> Any:
        rng = np.random.default_rng(size)
        end = 0.5 + 0.4 * initial + 0.08 * np.log(size / 1e9)
        curve = initial + (end - initial) * -np.expm1(-np.arange(60) / 12) + 0.01 * rng.standard_normal(60)
        metrics = {step: {"reward": float(value)} for step, value in enumerate(curve, start=1)}
        model = {"name": f"m{size}", "parameters": size} if stated else {"name": "m"}
        tensors = [] if stated else [tensor_info("model.layers.0.up_proj.weight", 0, 1000, size // 1000)]
        return write_run(f"run-{size}-{initial}-{stated}", metrics=metrics, model=model, tensors=tensors)

    return make


@pytest.fixture
def runs(sized):
    return [
        sized(size, initial) for size, initial in ((10**9, 0.1), (2 * 10**9, 0.3), (4 * 10**9, 0.2), (8 * 10**9, 0.35))
    ]


def law(runs: Any, **options: Any) -> Any:
    return registry.analysis("scaling_law").run(runs[0], others=runs[1:], **options)


def test_a_law_with_its_error_on_runs_left_out(runs) -> None:
    result = law(runs, size=6e9, initial=0.25)
    assert result.laws[0].left_out_rmse <= result.laws[1].left_out_rmse
    assert result.longest == 60
    assert [round(run.size / 1e9) for run in result.runs] == [1, 2, 4, 8]
    assert result.forecast is not None
    truth = 0.5 + 0.4 * 0.25 + 0.08 * np.log(6)
    assert result.forecast.reward.low < truth < result.forecast.reward.high


def test_a_size_past_all_runs_is_forecast_with_a_warning(runs) -> None:
    assert any("past the sizes" in warning for warning in law(runs, size=16e9, initial=0.25).warnings)
    assert not any("past the sizes" in warning for warning in law(runs, size=6e9, initial=0.25).warnings)


def test_too_few_runs_are_refused(runs) -> None:
    with pytest.raises(UsageError, match="at least 4"):
        law(runs[:3])


def test_size_needs_sizes(sized) -> None:
    same = [sized(10**9, initial) for initial in (0.1, 0.2, 0.3, 0.4)]
    assert any("says nothing about size" in warning for warning in law(same).warnings)
    with pytest.raises(UsageError, match="different sizes"):
        law(same, size=7e9, initial=0.2)


def test_size_and_start_are_given_together(runs) -> None:
    with pytest.raises(UsageError, match="give both"):
        law(runs, size=7e9)


def test_size_from_the_tensors_where_the_manifest_is_silent(sized, runs) -> None:
    assert law([*runs[:3], sized(8 * 10**9, 0.3, stated=False)]).runs[3].size == 8e9


def test_a_run_that_does_not_say_its_size_is_refused(runs, write_run) -> None:
    silent = write_run("silent", metrics={step: {"reward": 0.1} for step in range(1, 30)})
    with pytest.raises(MissingDataError, match="how large"):
        law([*runs, silent])


def test_the_command(runs) -> None:
    paths = [str(run.path) for run in runs]
    options = ["scaling-law", *paths, "--size", "16e9", "--initial", "0.25"]
    shown = CliRunner().invoke(build(), options, env={"COLUMNS": "140"})
    assert shown.exit_code == 0
    for text in ("saturation", "naive guess", "16,000,000,000 parameters", "foretold"):
        assert text in shown.output
    found = json.loads(CliRunner().invoke(build(), [*options, "--json"]).stdout)
    must_fit("scaling-law", found)
    assert set(found["forecast"]["reward"]) == {"value", "low", "high", "level"}


def test_a_run_given_twice_is_refused(runs) -> None:
    with pytest.raises(UsageError, match="is given twice"):
        law([*runs, runs[0]])


@pytest.mark.parametrize(("size", "initial"), [(-1.0, 0.2), (0.0, 0.2), (float("nan"), 0.2), (7e9, float("inf"))])
def test_a_size_that_no_model_has_is_refused(runs, size: float, initial: float) -> None:
    with pytest.raises(UsageError, match="expected a number of parameters and a reward"):
        law(runs, size=size, initial=initial)
