"""The studies that come with the project are what the docs say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpodyn import rewards
from grpodyn.config import yaml_text
from grpodyn.embedded.bases import BASES
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.study import SECTION, load_study

ROOT = Path(__file__).parents[2]
STUDIES = sorted(path for path in (ROOT / "configs/studies").glob("*.yaml") if SECTION in yaml_text.read(path))


def test_they_are_there() -> None:
    assert {"group_size", "kl", "stop_reward", "reward_refinement", "lora_targets"} <= {path.stem for path in STUDIES}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_can_be_carried_out(path: Path) -> None:
    study = load_study(path)
    assert study.name == path.stem
    assert study.question.endswith("?")
    runs = planned_runs(study, path.parent)
    assert len(runs) == len(study.every_arm()) * len(study.seeds)
    for run in runs:
        assert run.config.model.path in BASES
        for reward in run.config.rewards:
            rewards.reward(reward.name, reward.options)
    if study.at is not None:
        # Where runs come equally far can only be found between evaluations.
        assert all(run.config.evaluate is not None and run.config.evaluate.every for run in runs)
        for one in study.contrasts:
            assert "@" not in one.metric or one.metric.endswith(f"@{study.at.metric}={study.at.value:g}")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_is_documented(path: Path) -> None:
    assert f"| `{path.stem}` |" in (ROOT / "docs/sweep.md").read_text()


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("kl", "kl"),
        ("stop_reward", "stop-reward"),
        ("group_size", "group-size-study"),
        ("lora_targets", "lora-targets"),
        ("curriculum_v1v2v3", "curriculum-v1v2v3"),
    ],
)
def test_the_minutes_of_a_study_are_those_that_it_took(name: str, result: str) -> None:
    minutes = load_study(ROOT / f"configs/studies/{name}.yaml").minutes
    runs = json.loads((ROOT / f"docs/results/{result}.json").read_text())["runs"]
    # Each run had one core, and there are two.
    assert minutes == pytest.approx(sum(run["seconds"] for run in runs) / 60 / 2, rel=0.2)
    row = next(line for line in (ROOT / "docs/sweep.md").read_text().splitlines() if line.startswith(f"| `{name}` |"))
    assert row.endswith(f"| {minutes:g} |")


@pytest.mark.parametrize("name", ["kl", "stop_reward"])
def test_what_is_claimed_rests_on_eight_seeds(name: str) -> None:
    study = load_study(ROOT / f"configs/studies/{name}.yaml")
    assert len(study.seeds) >= 8
    assert study.contrasts


def test_arms_of_group_sizes_sample_equally_much() -> None:
    path = ROOT / "configs/studies/group_size.yaml"
    runs = planned_runs(load_study(path), path.parent)
    assert {run.config.grpo["num_generations"] for run in runs} == {2, 4, 8, 16}
    sampled = {(run.config.grpo["per_device_train_batch_size"], run.config.grpo["max_steps"]) for run in runs}
    assert sampled == {(128, 80)}
