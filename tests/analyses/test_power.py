"""`power`, from recorded runs and from given rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.errors import MissingDataError, UsageError
from grpodyn.trace.reader import Run
from tests.simulation.recorded import record, rollout


def evaluated(directory: Path, accuracy: float, seed: int = 0, rates: Any = None) -> Run:
    """Write a run whose held-out prompts have the given solve rates (or all the accuracy)."""
    p = np.full(10, accuracy) if rates is None else np.asarray(rates)
    return record(
        directory,
        evaluations={
            0: {"heldout/accuracy": 0.1},
            9: {"heldout/accuracy": p.mean(), "heldout/pass@2": (1 - (1 - p) ** 2).mean()},
        },
        config={"model": {"path": "m"}, "seed": seed, "evaluate": {"prompts": 400}},
    )


def power(run: Run, **options: Any) -> Any:
    return registry.analysis("power").run(run, **options)


def test_the_spread_over_prompts_comes_from_pass_at_2(tmp_path: Path) -> None:
    rates = np.array([0.0, 0.0, 0.2, 0.8, 1.0])
    found = power(evaluated(tmp_path / "run", 0, rates=rates))
    # Both arms: twice the variance of p, twice E p(1 − p).
    assert found.noise.between == pytest.approx(2 * rates.var())
    assert found.noise.within == pytest.approx(2 * (rates * (1 - rates)).mean())
    assert (found.design.prompts, found.design.samples, found.design.seeds) == (400, None, 1)
    assert found.noise.seed is None
    assert "spread of seeds is unknown" in found.basis[1]


def test_seeds_of_one_config_are_pooled(tmp_path: Path) -> None:
    runs = [evaluated(tmp_path / f"s{i}", accuracy, i) for i, accuracy in enumerate((0.5, 0.52, 0.57))]
    found = power(runs[0], others=runs[1:], difference=0.03)
    assert found.noise.seed == pytest.approx(np.std([0.5, 0.52, 0.57], ddof=1))
    assert found.design.seeds == 3
    assert found.seeds_needed > 3
    assert found.smallest_seen > 0.03


def test_rollouts_stand_in_where_nothing_was_evaluated(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rates = np.repeat([0.0, 0.5], 200)
    run = record(
        tmp_path / "run", rollouts={step: rollout(rng.random((400, 8)) < rates[:, None]) for step in range(1, 9)}
    )
    found = power(run)
    assert found.noise.between == pytest.approx(2 * 1 / 16, rel=0.05)
    assert found.noise.within == pytest.approx(2 * 1 / 8, rel=0.05)
    assert found.design.samples == 1
    assert "training rollouts from step 6" in found.basis[0]


def test_what_is_given_replaces_what_the_run_says(tmp_path: Path) -> None:
    found = power(evaluated(tmp_path / "run", 0.5), prompts=50, samples=4, seeds=5, seed_spread=0.01, correlation=0.5)
    assert (found.design.prompts, found.design.samples, found.design.seeds) == (50, 4, 5)
    assert (found.design.correlation, found.noise.seed) == (0.5, 0.01)


def test_a_run_that_says_nothing_about_right_and_wrong(tmp_path: Path) -> None:
    run = record(tmp_path / "run", metrics={1: {"reward": 0.4}})
    with pytest.raises(MissingDataError, match="give `--base` and no run"):
        power(run)


def test_the_command_without_a_run() -> None:
    options = ["power", "--base", "0.7", "--difference", "0.045", "--prompts", "200"]
    found = json.loads(CliRunner().invoke(build(), [*options, "--json"]).output)
    assert found["prompts_needed"] == 1551
    assert found["smallest_seen"] == pytest.approx(0.1253, abs=1e-3)
    shown = CliRunner().invoke(build(), options).output
    assert "prompts: 1,551" in shown
    assert "about these weights, not about training again" in shown


def test_the_command_needs_one_of_the_two() -> None:
    error = CliRunner().invoke(build(), ["power"]).exception
    assert isinstance(error, UsageError)
    assert "--base" in str(error)


def test_the_command_with_runs(tmp_path: Path) -> None:
    paths = [str(evaluated(tmp_path / f"s{i}", 0.5 + 0.01 * i, i).path) for i in range(2)]
    found = json.loads(CliRunner().invoke(build(), ["power", *paths, "--json"]).output)
    assert found["design"]["seeds"] == 2
    assert found["samples_needed"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompts": 0}, "prompts is 0"),
        ({"seeds": 0}, "seeds is 0"),
        ({"samples": -1}, "samples is -1"),
        ({"difference": 0}, "needs no comparison"),
        ({"difference": 5}, "give a share"),
        ({"correlation": 2}, "correlation is 2"),
        ({"correlation": float("nan")}, "correlation is nan"),
        ({"seed_spread": -0.1}, "spread of seeds is -0.1"),
        ({"seed_spread": float("nan")}, "spread of seeds is nan"),
        ({"chance": 0.01}, "false alarm"),
    ],
)
def test_what_makes_no_sense_is_said_and_never_replaced(tmp_path: Path, options: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        power(evaluated(tmp_path / "run", 0.5), **options)
