"""The run configs of the study tasks, as they are trained and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.config import run
from grpodyn.embedded.bases import BASES
from grpodyn.tasks import SPLITS, task

CONFIGS = Path(__file__).parents[2] / "configs" / "studies" / "tasks"


@pytest.mark.parametrize("name", sorted({path.stem.removesuffix("_lora") for path in CONFIGS.glob("*.yaml")}))
def test_each_task_has_a_full_and_a_lora_config_that_differ_in_rate_alone(name):
    full, lora = run.load(CONFIGS / f"{name}.yaml"), run.load(CONFIGS / f"{name}_lora.yaml")
    assert (full.lora, full.task.name) == (None, name)
    assert lora.lora == {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
    assert full.model_copy(update={"grpo": {}}) == lora.model_copy(update={"grpo": {}, "lora": None})
    assert {key for key in full.grpo if full.grpo[key] != lora.grpo[key]} == {"learning_rate"}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_base_and_lengths_fit_the_task(path):
    config = run.load(path)
    assert BASES[config.model.path].task == config.task.name
    longest = max(len(answer) for split in SPLITS for answer in task(config.task.name).split(split).answers)
    # One more for the end token, one more so that a completion that was cut off cannot equal an answer.
    assert longest + 2 <= config.grpo["max_completion_length"]
