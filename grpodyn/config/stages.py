"""The sections of a run config that make a run of several stages: `sft` and `curriculum`; and stages tested again."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config.task import TaskConfig
from grpodyn.config.validation import StrictModel
from grpodyn.tasks import arithmetic_stages

MANAGED_KEYS = {
    "output_dir": "the run directory decides it (--run-dir)",
    "seed": "write the top-level `seed`",
    "model_init_kwargs": "write the `model` section",
    "trust_remote_code": "write `model.trust_remote_code`",
}
"""Keys of a trainer's arguments that a section of the run config sets, so that there is one place for each."""


class StageConfig(StrictModel):
    """Prompts of an earlier stage of training, or of another task, that are tested again."""

    name: str = Field(min_length=1)
    task: TaskConfig
    split: str = "report"
    prompts: int = Field(default=200, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("task"), str):
            return {**value, "task": {"name": value["task"]}}
        return value


class CurriculumStage(StrictModel):
    """Prompts that are trained on until they are mastered; `task: NAME`, or the name of a task alone, will do."""

    name: str = Field(min_length=1)
    task: TaskConfig

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value, "task": {"name": value}}
        if isinstance(value, dict) and isinstance(value.get("task"), str):
            return {**value, "task": {"name": value["task"]}}
        return value


class CurriculumConfig(StrictModel):
    """Stages trained one after the other, each until it is mastered; each evaluation tests all of them again."""

    stages: list[CurriculumStage] = Field(
        default_factory=lambda: [
            CurriculumStage(name=name, task=TaskConfig(name=name)) for name in arithmetic_stages.STAGE_NAMES
        ],
        min_length=1,
    )
    level: float = Field(default=0.85, gt=0, le=1)
    """Accuracy that counts as mastered."""
    in_a_row: int = Field(default=3, ge=1)
    """Tests that must reach it, one after the other."""
    every: int = Field(default=50, ge=1)
    """Steps between two tests of the stage that is trained."""
    items: int = Field(default=100, ge=1)
    """Prompts of a test at most, always the same."""
    split: str = "choose"
    """Where they come from: not the split that is quoted, as the test decides how long a stage is trained."""
    temperature: float = Field(default=0.3, ge=0, le=10)
    """Of the test; 0 is greedy."""
    most_steps: int = Field(default=600, ge=1)
    """Of a stage; one that is not mastered by then has stalled."""
    patience: int = Field(default=6, ge=1)
    """Tests in a row without a new best, after which a stage has stalled."""
    on_stall: Literal["stop", "continue"] = "stop"
    """What becomes of the run where a stage stalls, or cannot be learned from: it ends, or it goes on."""
    least_reward: float = Field(default=0.05, ge=0, le=1)
    """A stage below it is not viable: expected accuracy of its samples before it is trained."""
    most_alike: float = Field(default=0.7, gt=0, le=1)
    """Nor is one above it: expected share of groups whose completions are all right or all wrong."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [stage.name for stage in self.stages]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"stages are told apart by name, and {', '.join(twice)} occurs twice; rename one")
        return self


class SftConfig(StrictModel):
    """Supervised fine-tuning before GRPO, as the first stage of the run."""

    task: TaskConfig | None = None
    """Prompts and the answers to learn; null for those of the run's own task."""
    trainer: dict[str, Any] = Field(default_factory=dict)
    """Keys of TRL's `SFTConfig`."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("task"), str):
            return {**value, "task": {"name": value["task"]}}
        return value

    @model_validator(mode="after")
    def _keys_have_one_place(self) -> Self:
        for key, instead in MANAGED_KEYS.items():
            if key in self.trainer:
                raise ValueError(f"trainer.{key} has no effect there: {instead}")
        return self
