"""`group-size`, from the run to what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.errors import UsageError
from grpodyn.groups.across import compare_group_sizes
from grpodyn.trace.reader import Run
from tests.simulation.recorded import record, rollout


def invoke(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(build(), ["group-size", *map(str, arguments)], env={"COLUMNS": "100"})
    assert result.exit_code == code, result.output
    return result.output


def trained(directory: Path, g: int, seed: int, *, speed: float = 0.1, noise: float = 0.03, **fields: Any) -> Run:
    """Write a run whose solve rate rises to 1, with 16 prompts a step and noise of its seed."""
    rng = np.random.default_rng([g, seed])
    steps = range(1, 31)
    lift = rng.normal(0, noise)
    rates = {step: float(np.clip(1 - 0.9 * np.exp(-speed * step) + lift, 0.01, 0.99)) for step in steps}
    config = {"model": {"path": "m"}, "grpo": {"num_generations": g, "per_device_train_batch_size": 64}, "seed": seed}
    return record(
        directory / f"g{g}-s{seed}",
        rollouts={
            step: rollout(rng.random((16, g)) < rates[step], [100 * step + i for i in range(16)]) for step in steps
        },
        metrics={
            step: {"reward": rates[step], "grad_norm": 1 / g + 0.01 * seed, "step_seconds": 2.0} for step in steps
        },
        evaluations={
            step: {"heldout/accuracy": rates.get(step, 0.1), "heldout/pass@4": 0.9} for step in (0, 5, 10, 15, 20, 30)
        },
        layers={30: [1 + 0.01 * seed, 1, 2]},
        config=config,
        **fields,
    )


def test_the_keys_that_programs_rely_on(tmp_path: Path) -> None:
    run = trained(tmp_path, 8, 0)
    found = json.loads(invoke(run.path, "--json", "--sizes", "2,8,16"))
    assert found["recorded_g"] == 8
    assert [row["g"] for row in found["groups"]] == [2, 8, 16]
    assert {"g", "dead", "all_right", "all_wrong", "useful_per_1000"} <= set(found["groups"][0])
    assert set(found["groups"][0]["dead_interval"]) == {"value", "low", "high", "level"}
    assert found["by_outcome"]["outcome"] == "total reward"
    assert "other policies" in found["holds_for"]
    recorded = found["groups"][1]
    rewards = np.asarray(run.rollouts["reward"].values).reshape(-1, 8)
    assert recorded["dead"] == pytest.approx(np.mean(np.ptp(rewards, axis=1) == 0))
    assert recorded["useful_per_1000"] == pytest.approx(1000 * (1 - recorded["dead"]))


def test_what_people_read(tmp_path: Path) -> None:
    shown = invoke(trained(tmp_path, 8, 0).path)
    flat = " ".join(shown.split())
    assert "480 groups of 8" in flat
    assert "training with another group size visits other policies" in flat
    assert "grpodyn record" in flat
    assert "--set grpo.num_generations=$g" in flat
    assert "16*" in flat


def test_a22_sizes_are_compared_by_prompt_completion_token_and_second_not_by_step_alone(tmp_path: Path) -> None:
    runs = [(trained(tmp_path, g, seed), g) for g in (4, 8) for seed in range(3)]
    across = compare_group_sizes(runs)
    assert [(arm.g, len(arm.runs)) for arm in across.arms] == [(4, 3), (8, 3)]
    needed = {one.name: one for one in across.measures if one.kind == "needed"}
    assert list(needed) == ["step", "prompts", "completions", "tokens", "seconds"]
    # The same curve over steps at twice the completions: as many prompts, twice the completions.
    assert needed["prompts"].mean(1) / needed["prompts"].mean(0) == pytest.approx(1, abs=0.3)
    ratio = needed["completions"].mean(1) / needed["completions"].mean(0)
    assert ratio == pytest.approx(2 * needed["prompts"].mean(1) / needed["prompts"].mean(0), rel=1e-6)
    reached = {one.name for one in across.measures if one.kind == "reached"}
    assert reached == {"pass@1", "pass@4"}
    assert across.solve_rate == "heldout/accuracy"


def test_a50_sizes_whose_seeds_differ_more_are_not_separable(tmp_path: Path) -> None:
    runs = [(trained(tmp_path, g, seed, noise=0.1), g) for g in (4, 8) for seed in range(3)]
    across = compare_group_sizes(runs)
    (reached,) = [one for one in across.measures if one.name == "pass@1"]
    assert not reached.separations[1].separable
    assert "not separable" in reached.separations[1].verdict
    assert any("move alike" in note for note in across.layers.notes)


def test_matched_and_unmatched_stability(tmp_path: Path) -> None:
    runs = [(trained(tmp_path, g, seed, noise=0.005), g) for g in (4, 8) for seed in range(3)]
    across = compare_group_sizes(runs)
    kinds = {(one.kind, one.name): one for one in across.measures}
    for kind in ("stability", "stability, matched"):
        gradient = kinds[kind, "gradient norm"]
        assert gradient.mean(0) == pytest.approx(0.26)
        assert gradient.separations[1].separable
    # Fewer completions a step, noisier rewards: p(1 − p)/(16 G).
    variance = kinds["stability, matched", "reward variance"]
    assert variance.mean(0) > variance.mean(1)


def test_a_second_cause_and_missing_parts_are_said(tmp_path: Path) -> None:
    other = record(
        tmp_path / "other",
        rollouts={step: rollout(np.eye(4)) for step in (1, 2, 3)},
        config={"model": {"path": "m"}, "grpo": {"num_generations": 4, "learning_rate": 1.0}, "seed": 0},
    )
    result = registry.analysis("group_size").run(trained(tmp_path, 8, 0), others=[other])
    warnings = " ".join(result.across.warnings)
    assert "differ in more than the group size (grpo.learning_rate, grpo.per_device_train_batch_size)" in warnings
    assert "G=4, G=8: one run" in warnings
    assert "evaluated no fixed prompts" in warnings
    assert "lack layer_delta" in result.across.layers.notes[0]
    assert "one run each" not in invoke(tmp_path / "other", trained(tmp_path, 8, 1).path)


def test_sizes_and_targets_that_make_no_sense(tmp_path: Path) -> None:
    run = trained(tmp_path, 8, 0)
    with pytest.raises(UsageError, match="from 2 to 1024"):
        registry.analysis("group_size").run(run, sizes=(1,))
    with pytest.raises(UsageError, match="between 0 and 1"):
        registry.analysis("group_size").run(run, target=40)
    assert isinstance(CliRunner().invoke(build(), ["group-size", str(run.path), "--sizes", "a"]).exception, UsageError)
