"""Which runs are one arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpodyn.arms.arm import arms_of, differences
from tests.simulation.recorded import record


def run(tmp_path: Path, name: str, seed: int = 0, **grpo: Any):
    config = {"model": {"path": "m"}, "grpo": {"learning_rate": 1e-4, "output_dir": name, **grpo}, "seed": seed}
    return record(tmp_path / name, metrics={1: {"reward": 0.1}}, config=config)


def test_a50_seeds_of_one_config_are_one_arm(tmp_path: Path) -> None:
    runs = [run(tmp_path, f"a{seed}", seed) for seed in range(3)] + [run(tmp_path, "b", 0, learning_rate=1e-3)]
    arms = arms_of(runs)
    assert [(arm.label, len(arm.runs)) for arm in arms] == [("learning_rate=0.0001", 3), ("learning_rate=0.001", 1)]


def test_what_is_recorded_is_no_difference_of_arms(tmp_path: Path) -> None:
    a = run(tmp_path, "a")
    b = record(
        tmp_path / "b",
        metrics={1: {"reward": 0.1}},
        config={"model": {"path": "m"}, "grpo": {"learning_rate": 1e-4}, "seed": 1, "record": {"preset": "light"}},
    )
    assert len(arms_of([a, b])) == 1
    assert [one.key for one in differences([a, b])] == ["seed", "record.preset"]


def test_arms_that_differ_in_much_are_called_by_their_first_run(tmp_path: Path) -> None:
    arms = arms_of([run(tmp_path, "a"), run(tmp_path, "b", learning_rate=1e-3, beta=0.1, epsilon=0.3)])
    assert [arm.label for arm in arms] == ["a", "b"]


def test_scripts_are_told_apart_by_their_trainers_arguments(tmp_path: Path) -> None:
    def script(name: str, **arguments: Any):
        fields = {"learning_rate": 1e-4, "output_dir": name, **arguments}
        return record(tmp_path / name, metrics={1: {"reward": 0.1}}, trainer={"arguments": fields})

    arms = arms_of([script("a", seed=1), script("b", seed=2), script("c", num_generations=4)])
    assert [(arm.label, len(arm.runs)) for arm in arms] == [("num_generations=None", 2), ("num_generations=4", 1)]
