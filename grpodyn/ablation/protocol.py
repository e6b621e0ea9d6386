"""What an ablation is to do, fixed before its first number: tasks, arms, seeds, tuning, comparisons, margin.

The `study` section of a YAML file, or defaults around a run. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config import run as run_config
from grpodyn.config import yaml_text
from grpodyn.config.run import RunConfig
from grpodyn.config.validation import StrictModel, validate
from grpodyn.errors import ConfigError, UnknownNameError

ADVISED: Final = "advised"
ALL_LINEAR: Final = "all-linear"
SAME_BUDGET: Final = "all-linear-same-budget"
DISPLACEMENT: Final = "displacement-top"
RANDOM: Final = "random-same-budget"
TEMPERATURE: Final = "temperature-only"
FULL: Final = "full"
LAYER_PREFIX: Final = "layer:"
"""`layer:3` is an adapter on layer 3 alone."""
TYPE_PREFIX: Final = "type:"
"""`type:up_proj` is an adapter on one module type in all layers."""

ARMS: Final[dict[str, str]] = {
    ADVISED: "what `recommend-lora` says about the source run",
    ALL_LINEAR: "every linear module, at the advised rank",
    SAME_BUDGET: "every linear module, at a rank so low that it costs what the advised adapter costs",
    RANDOM: "the advised adapter's shape, somewhere else: a new draw each seed",
    "attention-only": "attention in all layers, at the advised budget",
    "mlp-only": "the MLP in all layers, at the advised budget",
    "last-block": "the last layer, at the advised budget",
    DISPLACEMENT: "the layers of the largest net displacement in the source run, at the advised budget",
    "gradient-top": "the layers of the largest gradient energy in the source run, at the advised budget",
    "gradnorm-top": "the layers of the largest gradient norm in its first tenth, at the advised budget",
    "norm-proportional": "ranks in proportion to each module's gradient norm, at the advised budget",
    "eva": "ranks as PEFT's EVA redistributes them, at the advised budget",
    "plop": "the three module types of the lowest NFN (PLoP), at the advised budget",
    TEMPERATURE: "one trained scalar: the sampling temperature",
    FULL: "all weights",
}
"""Every arm by name, and what it is."""

DEFAULT_ARMS: Final = (
    ADVISED,
    ALL_LINEAR,
    SAME_BUDGET,
    RANDOM,
    "attention-only",
    "mlp-only",
    "last-block",
    "gradient-top",
    DISPLACEMENT,
    TEMPERATURE,
)

NEEDS_SOURCE: Final = frozenset(
    {ADVISED, DISPLACEMENT, RANDOM, SAME_BUDGET, "gradient-top", "gradnorm-top", "norm-proportional"}
)
"""Arms whose placement or size comes from a source run, or from advice."""

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Seeds = Annotated[list[Seed], Field(min_length=1)]


class Contrast(StrictModel):
    """One primary comparison of two arms, seed by seed."""

    a: str
    b: str
    test: Literal["better", "not_worse"] = "better"
    margin: float = Field(default=0.1, gt=0, lt=1)
    """Of b's gain over the base; only of `not_worse`."""


class Tuning(StrictModel):
    """The same for every arm: learning rates around its rule, picked on a split of its own."""

    seeds: Seeds = Field(default=[101, 102])
    powers: Annotated[list[int], Field(min_length=1)] = Field(default=[-1, 0, 1])
    """Learning rates as powers of 3 times the rule's."""
    extensions: int = Field(default=2, ge=0)
    """How often the grid may grow by one rate while the best one lies at its edge."""

    @model_validator(mode="after")
    def _one_row(self) -> Self:
        if sorted(self.powers) != list(range(min(self.powers), max(self.powers) + 1)):
            raise ValueError(f"powers {self.powers} leave out a rate; expected neighbours, such as [-1, 0, 1]")
        return self


class Source(StrictModel):
    """The run that the advice comes from: a seed that nothing is tested on."""

    seed: Seed = 1001
    attribute: bool = True
    """Whether the source run is patch-tested, so that the advice stands on rung 2."""


class Measure(StrictModel):
    """What is measured of a trained model."""

    split: str = "report"
    """Where arms are compared; nothing is picked on it."""
    tuning_split: str = "choose"
    prompts: int = Field(default=1000, ge=1)
    samples: int | None = Field(default=None, ge=4)
    """Completions a prompt, where accuracy is a mean reward; null is exact for the reward `exact_match`, else 4."""
    curve_every: int = Field(default=5, ge=1)
    """Steps between two points of the learning curve, on `tuning_split`."""
    curve_prompts: int = Field(default=256, ge=1)
    level: float = Field(default=0.8, gt=0, le=1)
    """Steps are counted to this share of all-linear's gain."""


class TaskEntry(StrictModel):
    """One task of a study: a run config, and possibly advice made elsewhere."""

    name: str = Field(min_length=1)
    config: str
    """Path of a run config, relative to the study file."""
    advice: str | None = None
    """Path of an adapter (JSON of recommend-lora or PEFT) to test instead of advice on a source run."""


class Study(StrictModel):
    """Everything that decides what is trained and how it is compared."""

    name: str = Field(min_length=1)
    tasks: list[TaskEntry] = Field(default_factory=list)
    arms: Annotated[list[str], Field(min_length=1)] = Field(default=list(DEFAULT_ARMS))
    adapters: dict[str, str] = Field(default_factory=dict)
    """Arms of one's own: name → adapter file, relative to the study file."""
    seeds: Seeds = Field(default=[1, 2, 3])
    """Of the arms in primary comparisons; every arm trains on the same ones."""
    other_seeds: Seeds = Field(default=[1, 2, 3])
    """Of the other arms."""
    tuning: Tuning | None = Tuning()
    """Null trains every arm at its rule's learning rate."""
    source: Source = Source()
    primary: list[Contrast] = Field(
        default=[
            Contrast(a=ADVISED, b=ALL_LINEAR, test="not_worse"),
            Contrast(a=ADVISED, b=SAME_BUDGET),
            Contrast(a=ADVISED, b=RANDOM),
        ]
    )
    rank: int | None = Field(default=None, ge=1)
    """Of the advised adapter; null leaves it to the advice."""
    max_fraction: float | None = Field(default=0.25, gt=0, le=1)
    """The advised adapter's size, at most, of all-linear at its rank."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Error rate of the family of primary comparisons."""
    measure: Measure = Measure()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for arm in [*self.arms, *(arm for contrast in self.primary for arm in (contrast.a, contrast.b))]:
            if not self.knows(arm):
                raise ValueError(str(UnknownNameError.among("arm", arm, [*ARMS, *self.adapters])))
        taken = sorted(set(self.adapters) & set(ARMS))
        if taken:
            raise ValueError(f"adapters.{taken[0]} is the name of a built-in arm; choose another")
        test = {*self.seeds, *self.other_seeds}
        used = {self.source.seed, *(self.tuning.seeds if self.tuning else [])}
        if test & used:
            raise ValueError(
                f"seed {min(test & used)} is tested on and also used for tuning or advice; a seed that made a decision "
                "is no test of it"
            )
        if not set(self.other_seeds) <= set(self.seeds):
            raise ValueError("other_seeds must be among seeds, so that every arm is paired with the primary ones")
        if self.measure.split == self.measure.tuning_split:
            raise ValueError(f"measure.split and measure.tuning_split are both {self.measure.split!r}")
        return self

    def knows(self, arm: str) -> bool:
        """Return whether an arm of that name can be built."""
        return arm in ARMS or arm in self.adapters or arm.startswith((LAYER_PREFIX, TYPE_PREFIX))

    def seeds_of(self, arm: str) -> list[int]:
        """Return the test seeds of an arm."""
        return list(self.seeds if arm in self.primary_arms else self.other_seeds)

    @property
    def all_seeds(self) -> list[int]:
        """Every seed that an arm is trained on."""
        return [*self.seeds, *self.other_seeds, *(self.tuning.seeds if self.tuning else [])]

    def testing(self, candidate: str) -> Study:
        """Return the study with another arm in place of the advised one in its primary comparisons."""
        contrasts = [
            contrast.model_copy(update={side: candidate for side in ("a", "b") if getattr(contrast, side) == ADVISED})
            for contrast in self.primary
        ]
        return self.model_copy(update={"primary": contrasts})

    @property
    def primary_arms(self) -> list[str]:
        """The arms of the primary comparisons that are trained, in the order of `arms`."""
        named = {arm for contrast in self.primary for arm in (contrast.a, contrast.b)}
        return [arm for arm in self.arms if arm in named]


def is_study(raw: dict[str, Any]) -> bool:
    """Return whether a YAML file's content is a study rather than a run config."""
    return "study" in raw


def load_study(path: Path) -> tuple[Study, dict[str, RunConfig]]:
    """Return the study that a YAML file describes, and the run config of each of its tasks.

    Raises:
        ConfigError: the file, or one that it names, does not validate.
    """
    raw = yaml_text.read(path)
    foreign = sorted(set(raw) - {"study"})
    if foreign or not isinstance(raw.get("study"), dict):
        raise ConfigError(f"{path}: expected one section `study`, found also {', '.join(foreign) or 'no mapping'}")
    study = validate(Study, raw["study"], str(path))
    if not study.tasks:
        raise ConfigError(f"{path}: `study.tasks` is empty; name at least one run config")
    names = [task.name for task in study.tasks]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two tasks have one name among {', '.join(names)}")
    return study, {task.name: run_config.load(path.parent / task.config) for task in study.tasks}


def without(taken: int, seeds: Sequence[int]) -> list[int]:
    """Return as many seeds, one that is taken replaced by the next free one.

    >>> without(2, [1, 2, 3]), without(7, [1, 2, 3])
    ([1, 3, 4], [1, 2, 3])
    """
    return [seed for seed in (*seeds, max(seeds) + 1) if seed != taken][: len(seeds)]


def restricted(study: Study, *, arms: list[str] | None, seeds: int | None) -> Study:
    """Return a study with fewer arms or seeds, as asked for on the command line.

    Raises:
        ConfigError: an unknown arm, or more seeds than the study has.
    """
    changes: dict[str, Any] = {}
    if arms is not None:
        for arm in arms:
            if not study.knows(arm):
                raise UnknownNameError.among("arm", arm, [*ARMS, *study.adapters])
        changes["arms"] = list(dict.fromkeys(arms))
    if seeds is not None:
        if seeds < 1:
            raise ConfigError(f"--seeds {seeds}: expected at least 1")
        used = {study.source.seed, *(study.tuning.seeds if study.tuning else [])}
        free = (seed for seed in count(max(study.seeds) + 1) if seed not in used)
        changes["seeds"] = [*study.seeds, *islice(free, max(0, seeds - len(study.seeds)))][:seeds]
        changes["other_seeds"] = [seed for seed in study.other_seeds if seed in changes["seeds"]][:seeds] or (
            changes["seeds"][:1]
        )
    return validate(Study, {**study.model_dump(), **changes}, "the study with the options given")
