"""The config of a run: one YAML file, validated as a whole before anything is loaded or written.

`grpo` and `lora` are passed to TRL's `GRPOConfig` and PEFT's `LoraConfig` under their own names. Their keys are checked
when training starts (reading them takes the heavy imports), still before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config import overrides, yaml_text
from grpodyn.config.record import RecordConfig
from grpodyn.config.stages import MANAGED_KEYS, CurriculumConfig, SftConfig, StageConfig
from grpodyn.config.task import TaskConfig as TaskConfig  # noqa: PLC0414  # belongs to what this module shows
from grpodyn.config.validation import StrictModel, validate
from grpodyn.embedded import defaults
from grpodyn.evaluation import TEMPERATURES
from grpodyn.tasks import arithmetic_stages, word_for_word

EMBEDDED = "embedded"
"""The `model.path` that stands for the model shipped with the package."""

_MANAGED_GRPO_KEYS = {**MANAGED_KEYS, "reward_weights": "write `rewards: [{name: …, weight: …}]`"}

SECRET_GRPO_KEYS = frozenset({"hub_token", "push_to_hub_token"})
"""Never written down: a run directory is handed around."""


class ModelConfig(StrictModel):
    """Which weights to train, and how to load them."""

    path: str = Field(min_length=1)
    """Folder, hub name, or `embedded`."""
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Storage type. float32 by default: at the learning rates of RL most bf16 weights do not change in a step."""
    attn_implementation: str | None = None
    trust_remote_code: bool = False


class RewardConfig(StrictModel):
    """A reward function by name or as `module:function`, and its weight in the sum."""

    name: str = Field(min_length=1)
    weight: float = 1.0
    options: dict[str, Any] = Field(default_factory=dict)
    """Values of the function's keyword-only parameters."""
    label: str | None = Field(default=None, min_length=1)
    """The name it is recorded under; null for the function's own."""

    @property
    def recorded_as(self) -> str:
        """The name it is recorded under."""
        return self.label or self.name.rpartition(":")[2]


class EvaluateConfig(StrictModel):
    """Held-out accuracy, and what else is retained: before training, after it, and every so many steps if asked."""

    split: str = "report"
    prompts: int = Field(default=1000, ge=0)
    """Of the split; 0 measures no accuracy, only what is named below."""
    every: int | None = Field(default=None, ge=1)
    """Steps between evaluations during training; null for none."""
    temperatures: list[Annotated[float, Field(gt=0, le=10)]] = Field(default_factory=lambda: list(TEMPERATURES))
    """Where accuracy is measured beside T=1 and greedily: what a temperature alone gives is not learning."""
    batch_size: int = Field(default=256, ge=1)
    samples: int | None = Field(default=None, ge=1)
    """Completions sampled of each prompt and judged by a reward; null for the exact probability of the answer."""
    judge: str | None = None
    """With `samples`, the reward that judges, by the name it is recorded under: 1 is right. Null for the first."""
    texts: list[str] = Field(default_factory=list)
    """Held-out text whose perplexity is measured: files (.txt, or .jsonl with a `text` a line), or shipped texts."""
    window: int = Field(default=256, ge=1)
    """Tokens of a window of text."""
    text_windows: int = Field(default=200, ge=2)
    """Windows of each text at most."""
    kl: bool = False
    """Whether to measure how far the policy has moved: forward KL from the start on the task's prompts."""
    kl_prompts: int = Field(default=128, ge=2)
    stages: list[StageConfig] = Field(default_factory=list)
    """What is tested again, such as earlier stages of a curriculum."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        named = {"texts": [Path(text).stem for text in self.texts], "stages": [stage.name for stage in self.stages]}
        for what, names in named.items():
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} are told apart by name, and {', '.join(twice)} occurs twice; rename one")
        if self.judge is not None and self.samples is None:
            raise ValueError(f"judge is {self.judge!r}, but nothing is sampled that it could judge; set `samples`")
        return self


class StopConfig(StrictModel):
    """When going on is not worth it: the marginal rule, which only reports unless it may act."""

    act: bool = False
    """Whether training ends when the rule says so."""
    epsilon: float | None = Field(default=None, gt=0)
    """Expected gain in reward that is not worth going on for; null for 2 % of the level reached."""
    metric: str = "reward"
    """Key of the trainer's log that is watched."""


class RunConfig(StrictModel):
    """Everything that decides a run."""

    model: ModelConfig
    task: TaskConfig
    rewards: list[RewardConfig] = Field(default=[RewardConfig(name="exact_match")], min_length=1)
    grpo: dict[str, Any] = Field(default_factory=dict)
    """Keys of TRL's `GRPOConfig`."""
    lora: dict[str, Any] | None = None
    """Keys of PEFT's `LoraConfig`; null trains all parameters."""
    record: RecordConfig = RecordConfig()
    sft: SftConfig | None = None
    """Null for GRPO alone."""
    curriculum: CurriculumConfig | None = None
    """Null to train on the task's prompts; with one, `task` is what the held-out accuracy is measured on."""
    evaluate: EvaluateConfig | None = None
    """Null for no held-out evaluation; a task of this package is evaluated by default."""
    stop: StopConfig | None = None
    """Null for no watch on the reward."""
    seed: int = Field(default=0, ge=0, lt=2**32)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        full = expand(value)
        if full.get("curriculum") is not None and "task" not in full:
            full["task"] = {"name": arithmetic_stages.ArithmeticCurriculum.name}
        task = full.get("task")
        # Others are evaluated only on request: their answers may not be meant word for word.
        if "evaluate" not in full and isinstance(task, dict) and word_for_word(str(task.get("name"))):
            full["evaluate"] = {} if not task.get("chat") else None
        return full

    @model_validator(mode="after")
    def _rewards_are_told_apart(self) -> Self:
        names = [reward.recorded_as for reward in self.rewards]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"rewards are recorded by name, and {', '.join(twice)} occurs twice; give one of them another `label`"
            )
        return self

    @model_validator(mode="after")
    def _judge_is_a_reward(self) -> Self:
        judge = None if self.evaluate is None else self.evaluate.judge
        names = [reward.recorded_as for reward in self.rewards]
        if judge is not None and judge not in names:
            raise ValueError(f"evaluate.judge is {judge!r}, expected one of the run's rewards: {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _grpo_keys_have_one_place(self) -> Self:
        for key, instead in _MANAGED_GRPO_KEYS.items():
            if key in self.grpo:
                raise ValueError(f"grpo.{key} has no effect there: {instead}")
        return self

    @model_validator(mode="after")
    def _stages_can_be_told_and_tested(self) -> Self:
        if self.curriculum is None:
            return self
        schedule = self.grpo.get("lr_scheduler_type", "linear")
        if schedule not in ("constant", "constant_with_warmup"):
            raise ValueError(
                f"grpo.lr_scheduler_type is {schedule!r}, but how long a curriculum takes is not known beforehand; "
                "set it to constant or constant_with_warmup"
            )
        for key in ("max_steps", "num_train_epochs"):
            if key in self.grpo:
                raise ValueError(
                    f"grpo.{key} has no effect with a curriculum: set curriculum.most_steps (of each stage)"
                )
        if self.evaluate is None:
            raise ValueError("evaluate is null, but a curriculum tests its stages again; leave `evaluate` out")
        tested = {stage.name for stage in self.evaluate.stages}
        twice = sorted(tested & {stage.name for stage in self.curriculum.stages})
        if twice:
            raise ValueError(f"evaluate.stages and curriculum.stages both have {', '.join(twice)}; rename one")
        return self

    @model_validator(mode="after")
    def _stages_leave_checkpoints(self) -> Self:
        if (self.sft is not None or self.curriculum is not None) and self.grpo.get("save_strategy") == "no":
            raise ValueError("grpo.save_strategy is 'no', but a stage begins from the checkpoint of the one before it")
        if self.sft is not None and self.lora is not None and self.grpo.get("beta"):
            raise ValueError(
                f"grpo.beta is {self.grpo['beta']!r}, but TRL measures the KL term of an adapter from the model "
                "without it, which is the one before sft; set beta to 0, or lora to null"
            )
        return self

    @model_validator(mode="after")
    def _what_is_measured_is_not_learned_before(self) -> Self:
        learned = None if self.sft is None else self.sft.task
        if learned is None or self.evaluate is None or learned.split != self.evaluate.split:
            return self
        source = ("name", "options", "dataset", "subset", "revision")
        if all(getattr(learned, key) == getattr(self.task, key) for key in source):
            raise ValueError(
                f"sft.task.split is {learned.split!r}, on which evaluate.split measures; name another in one of them"
            )
        return self

    def with_lora(self, lora: dict[str, Any]) -> Self:
        """Return this config with another adapter to train."""
        return self.model_copy(update={"lora": lora})

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved config as plain YAML and JSON values; `from_dict` gives an equal config back."""
        return self.model_dump(mode="json")

    def to_record(self) -> dict[str, Any]:
        """Return `to_dict` without what must not be written down."""
        whole = self.to_dict()
        return whole | {"grpo": {key: value for key, value in whole["grpo"].items() if key not in SECRET_GRPO_KEYS}}


def expand(value: dict[str, Any]) -> dict[str, Any]:
    """Return a raw config with the short forms written out: `model: NAME`, `task: NAME`, `rewards: [NAME]`.

    >>> expand({"model": "embedded", "rewards": ["exact_match"]})
    {'model': {'path': 'embedded'}, 'rewards': [{'name': 'exact_match'}]}
    """
    full = dict(value)
    for section, key in (("model", "path"), ("task", "name")):
        if isinstance(full.get(section), str):
            full[section] = {key: full[section]}
    if isinstance(full.get("rewards"), list):
        full["rewards"] = [{"name": reward} if isinstance(reward, str) else reward for reward in full["rewards"]]
    return full


def from_dict(value: dict[str, Any], source: str, settings: Iterable[str] = ()) -> RunConfig:
    """Return a validated config.

    Args:
        value: the mapping that YAML or JSON held; it may use the short forms of `expand`.
        source: where it comes from, for the message.
        settings: `key.path=value` texts that replace single values.

    Raises:
        ConfigError: naming each key that is wrong, its value and what was expected.
    """
    return validate(RunConfig, overrides.apply(expand(value), settings), source)


def load(path: Path, settings: Iterable[str] = ()) -> RunConfig:
    """Return the config that a YAML file holds, with `settings` applied as in `from_dict`.

    Raises:
        ConfigError: the file cannot be read or does not validate.
    """
    return from_dict(yaml_text.read(path), str(path), settings)


def embedded(settings: Iterable[str] = ()) -> RunConfig:
    """Return the config of the embedded model and task, which `grpodyn record` uses when given none.

    Raises:
        ConfigError: the settings do not validate.
    """
    raw = {
        "model": EMBEDDED,
        "task": defaults.TASK,
        "rewards": list(defaults.REWARDS),
        "grpo": defaults.GRPO,
        "evaluate": defaults.EVALUATE,
    }
    return from_dict(raw, "the embedded config", settings)
