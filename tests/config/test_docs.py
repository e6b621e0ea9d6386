"""docs/run-config.md names every key that a run config takes."""

from pathlib import Path

import pytest

from grpodyn.config.record import RecordConfig
from grpodyn.config.run import EvaluateConfig, ModelConfig, RewardConfig, RunConfig, StopConfig, TaskConfig
from grpodyn.config.stages import CurriculumConfig, SftConfig

PAGE = (Path(__file__).parents[2] / "docs" / "run-config.md").read_text()


@pytest.mark.parametrize(
    "model",
    [
        RunConfig,
        ModelConfig,
        TaskConfig,
        RewardConfig,
        SftConfig,
        CurriculumConfig,
        EvaluateConfig,
        StopConfig,
        RecordConfig,
    ],
)
def test_every_key_is_documented(model: type) -> None:
    assert [key for key in model.model_fields if f"`{key}`" not in PAGE] == []
