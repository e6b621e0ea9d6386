"""What a sweep is to train and to answer, fixed before its first number: the `sweep` section of a YAML. No torch."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config import yaml_text
from grpodyn.config.validation import StrictModel, validate
from grpodyn.errors import ConfigError, UnknownNameError

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Settings = dict[str, Any]
"""Dotted config key → value, as in `--set`."""

SECTION = "sweep"
MOST_RUNS = 10_000


class Contrast(StrictModel):
    """A claim that the study puts to the test: arm `a` against arm `b`, seed by seed, one-sided."""

    a: str
    b: str
    metric: str
    """What is compared, by the name that results give it."""
    better: Literal["higher", "lower"]
    """Where `a` is expected."""
    equal: str | None = None
    """A metric in which `a` must not be worse than `b` (higher is better) for the claim to count."""
    margin: float = Field(default=0.05, gt=0)
    """By how much less of it does not matter; a difference."""


class Level(StrictModel):
    """Where runs are compared at equal skill: the first moment at which a metric has risen to a value."""

    metric: str = "heldout/accuracy"
    """Of the evaluations; or `train/KEY`, the mean of the trainer's last ten logs at each of them."""
    value: float


class SweepStudy(StrictModel):
    """Everything that decides what is trained and how it is compared."""

    name: str = Field(min_length=1, pattern=r"^[\w.+-]+$")
    question: str = ""
    """In words, for those who read the result."""
    config: str
    """Path of the run config that every arm starts from, relative to the study file."""
    set: Settings = Field(default_factory=dict)
    """Settings of every arm."""
    arms: dict[str, Settings] = Field(default_factory=dict)
    """Name → what this arm sets."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Key → values; an arm for each combination, in place of `arms`."""
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(default=[1, 2, 3])
    reference: str | None = None
    """The arm that the others are compared with; null for the first."""
    contrasts: list[Contrast] = Field(default_factory=list)
    """The claims of the study, judged together at `alpha`."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    at: Level | None = None
    """Compare the evaluations also where runs have come equally far."""
    minutes: float | None = Field(default=None, gt=0)
    """What the study takes on two cores, for those who decide whether to start it."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.arms) == bool(self.grid):
            raise ValueError("give either `arms` (name: settings) or a `grid` (key: values)")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} hold one twice; a seed trained twice is one run")
        arms = self.every_arm()
        if len(arms) * len(self.seeds) > MOST_RUNS:
            raise ValueError(f"{len(arms)} arms over {len(self.seeds)} seeds are more than {MOST_RUNS:,} runs")
        for arm, settings in (("set", self.set), *arms.items()):
            if "seed" in settings:
                raise ValueError(f"{arm} sets `seed`: a study's `seeds` decide it")
        for name in (self.reference, *(side for one in self.contrasts for side in (one.a, one.b))):
            if name is not None and name not in arms:
                raise ValueError(str(UnknownNameError.among("arm", name, arms)))
        for one in self.contrasts:
            if one.a == one.b:
                raise ValueError(f"a contrast compares {one.a!r} with itself")
        return self

    def every_arm(self) -> dict[str, Settings]:
        """Return the settings of every arm by its name; those of a grid are named after their values.

        >>> SweepStudy(name="s", config="c", grid={"grpo.beta": [0, 0.04], "lora.r": [8]}).every_arm()
        {'beta=0,r=8': {'grpo.beta': 0, 'lora.r': 8}, 'beta=0.04,r=8': {'grpo.beta': 0.04, 'lora.r': 8}}
        """
        if self.arms:
            return self.arms
        keys = list(self.grid)
        shown = _short_names(keys)
        found: dict[str, Settings] = {}
        for number, values in enumerate(itertools.product(*self.grid.values()), 1):
            name = ",".join(f"{shown[key]}={_word(value)}" for key, value in zip(keys, values, strict=True))
            # Values that are no plain words (lists, mappings) may look alike once they are shortened.
            found[name if name not in found else f"{name},{number}"] = dict(zip(keys, values, strict=True))
        return found

    @property
    def reference_arm(self) -> str:
        """The arm that the others are compared with."""
        return self.reference or next(iter(self.every_arm()))


def _short_names(keys: list[str]) -> dict[str, str]:
    last = {key: key.rsplit(".", 1)[-1] for key in keys}
    names = list(last.values())
    return {key: name if names.count(name) == 1 else key for key, name in last.items()}


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(_word(item) for item in value)
    if isinstance(value, dict):
        return "+".join(f"{key}:{_word(item)}" for key, item in value.items())
    return "null" if value is None else str(value)


def load_study(path: Path) -> SweepStudy:
    """Return the study that a YAML file describes.

    Raises:
        ConfigError: the file cannot be read, does not validate, or is something else than a study for `sweep`.
    """
    raw = yaml_text.read(path)
    if "study" in raw:
        raise ConfigError(f"{path} is a study of adapters (`study:`); to carry it out: grpodyn ablate {path}")
    if SECTION not in raw and "model" in raw:
        raise ConfigError(f"{path} is a run config; to train it: grpodyn record {path}")
    foreign = sorted(set(raw) - {SECTION})
    if foreign or not isinstance(raw.get(SECTION), dict):
        raise ConfigError(f"{path}: expected one section `{SECTION}`, found {', '.join(foreign) or 'no mapping in it'}")
    return validate(SweepStudy, raw[SECTION], str(path))


def restricted(study: SweepStudy, *, arms: list[str] | None = None, seeds: int | None = None) -> SweepStudy:
    """Return a study with fewer arms or seeds, or with more seeds, as asked for on the command line.

    Contrasts of arms that are left out are left out too.

    Raises:
        UnknownNameError: no arm has that name.
        ConfigError: no seeds are left.
    """
    changes: dict[str, Any] = {}
    if arms is not None:
        known = study.every_arm()
        for arm in arms:
            if arm not in known:
                raise UnknownNameError.among("arm", arm, known)
        kept = {arm: known[arm] for arm in known if arm in arms}
        changes |= {
            "arms": kept,
            "grid": {},
            "contrasts": [one.model_dump() for one in study.contrasts if one.a in kept and one.b in kept],
            "reference": study.reference if study.reference in kept else None,
        }
    if seeds is not None:
        if seeds < 1:
            raise ConfigError(f"--seeds {seeds}: expected at least 1")
        more = itertools.islice((n for n in itertools.count(max(study.seeds) + 1)), max(0, seeds - len(study.seeds)))
        changes["seeds"] = [*study.seeds, *more][:seeds]
    return validate(SweepStudy, {**study.model_dump(), **changes}, "the study with the options given")
