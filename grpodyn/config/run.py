"""The config of a run: one YAML file, validated as a whole before anything is loaded or written.

`grpo` and `lora` are passed to TRL's `GRPOConfig` and PEFT's `LoraConfig` under their own names. Their keys are checked
when training starts (reading them takes the heavy imports), still before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config import overrides, yaml_text
from grpodyn.config.record import RecordConfig
from grpodyn.config.validation import StrictModel, validate
from grpodyn.embedded import defaults
from grpodyn.evaluation import TEMPERATURES
from grpodyn.tasks import takes_dataset, word_for_word

EMBEDDED = "embedded"
"""The `model.path` that stands for the model shipped with the package."""

# Set by a section of the run config, so that there is one place for each.
_MANAGED_GRPO_KEYS = {
    "output_dir": "the run directory decides it (--run-dir)",
    "seed": "write the top-level `seed`",
    "reward_weights": "write `rewards: [{name: …, weight: …}]`",
    "model_init_kwargs": "write the `model` section",
    "trust_remote_code": "write `model.trust_remote_code`",
}

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


class TaskConfig(StrictModel):
    """A task of this package by `name`, or a `dataset` (hub name, or a .jsonl, .json, .parquet or .csv file).

    A task that reads a data set, such as `gsm8k`, takes a `dataset` beside its `name`, in place of the published one.
    """

    name: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    """Of the named task, such as the columns of its data set."""
    dataset: str | None = None
    subset: str | None = None
    """Configuration of a hub dataset, such as `main` of gsm8k."""
    revision: str | None = None
    split: str = "train"
    prompt: str = "prompt"
    """Column with the prompt: text, or a list of messages."""
    answer: str | None = "answer"
    """Column handed to reward functions as `answer`; null if there is none. All other columns are handed on too."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Other columns under the names that rewards read, such as `tests: test_list`."""
    splits: Literal["own", "hash"] = "own"
    """`hash` divides a dataset without splits of its own into train, choose, confirm and report, by its prompts."""
    template: str | None = None
    """Text that a prompt is put into, in place of `{prompt}`; null for the task's own."""
    chat: bool = False
    """Whether a text prompt is wrapped as a user's message, so that the model's chat template applies."""
    system: str | None = None
    """With `chat`, a system's message before it."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first so many prompts."""
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt; null for what the model's context leaves beside a completion."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """What becomes of a longer one."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.name is None and self.dataset is None:
            raise ValueError(
                "name and dataset are both null; give the `name` of a task of this package, or a `dataset`"
            )
        if self.name is not None and self.dataset is not None and not takes_dataset(self.name):
            raise ValueError(
                f"name is {self.name!r} and dataset is {self.dataset!r}; give one of them: this task reads no data set"
            )
        if self.template is not None and "{prompt}" not in self.template:
            raise ValueError(f"template is {self.template[:60]!r}, expected text with {{prompt}} in it")
        if self.system is not None and not self.chat:
            raise ValueError("system is a message of a conversation; set chat to true, or leave it out")
        if self.name is not None:
            dataset_only = ("answer", "columns", "prompt", "splits")
            self._refuse(dataset_only, f"belong to a `dataset` alone; the task {self.name!r} has its own columns")
            if not takes_dataset(self.name):
                self._refuse(("revision", "subset"), f"belong to a `dataset`; the task {self.name!r} reads none")
        else:
            self._refuse(("options",), "belong to a named task")
        return self

    def _refuse(self, keys: Sequence[str], why: str) -> None:
        # Compared with the default, not with what was written: a resolved config writes them all.
        fields = type(self).model_fields
        foreign = [key for key in keys if getattr(self, key) != fields[key].get_default(call_default_factory=True)]
        if foreign:
            raise ValueError(f"{', '.join(foreign)} {why}")


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
    def _grpo_keys_have_one_place(self) -> Self:
        for key, instead in _MANAGED_GRPO_KEYS.items():
            if key in self.grpo:
                raise ValueError(f"grpo.{key} has no effect there: {instead}")
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
