"""`ablation.json`: what an ablation found, for `recommend-lora` and for people. No torch.

The file is written after every training, so that a study that was stopped says what it knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from grpodyn.errors import NotARunError, SchemaError
from grpodyn.statistics import Interval
from grpodyn.trace import strict_json

FILE = "ablation.json"
VERSION = 1
_SHOWN = 80

VerdictKind = Literal["confirmed", "refuted", "not separable", "not tested"]


@dataclass(frozen=True)
class Base:
    """The untouched base on the split that arms are compared on; shares of prompts."""

    task: str
    accuracy: float
    """At T=1."""
    greedy: float
    best_temperature: float
    """The best one on the tuning split."""
    best: float
    """At that temperature."""


@dataclass(frozen=True)
class ArmResult:
    """One arm at its own best learning rate; intervals are over test seeds."""

    task: str
    arm: str
    what: str
    trainable_params: int
    lora: Mapping[str, Any] | None
    """The `lora` section of a run config (of the first test seed, where each seed draws its own)."""
    learning_rate: float
    rates_tried: Mapping[str, float]
    """Learning rate → mean accuracy on the tuning split."""
    at_edge: bool
    """Whether the best rate was the last one tried."""
    seeds: tuple[int, ...]
    accuracy: Interval
    greedy: Interval
    best: Interval
    """At each model's own best temperature."""
    pass_at: Mapping[str, float]
    gain_kept: Interval
    """Gain over the base as a share of all-linear's gain."""
    steps_to_level: Interval
    """Steps to the level that `level` names; nan where a seed never reached it."""
    reached: int
    """How many seeds reached it."""
    kl: Interval
    """Forward KL of the base to the trained model, nats a token."""
    skill_gain: Interval
    """Accuracy minus the base's at the temperature of the same mean entropy."""
    perplexity_ratio: Mapping[str, Interval]
    """Text → perplexity after over perplexity of the base."""
    seconds: float
    """Median of a training."""
    failed: tuple[str, ...]
    """Errors of trainings that failed."""


@dataclass(frozen=True)
class Comparison:
    """Two arms, paired by seed."""

    task: str
    a: str
    b: str
    test: Literal["better", "not_worse", "descriptive"]
    """`descriptive` carries an interval and no p."""
    seeds: int
    difference: Interval
    """Of accuracy, a − b."""
    margin: float
    """How much worse is not worse, in accuracy; 0 for `better`."""
    p: float
    """One-sided."""
    p_holm: float
    """Adjusted for all primary comparisons of the study."""
    smallest_seen: float
    """The difference that this many seeds show in 8 of 10 studies."""
    outcome: VerdictKind
    needs_seeds: int | None
    """Seeds that would show a difference of the size found; None if settled, or if none of that size would."""


@dataclass(frozen=True)
class Ablation:
    """The whole result."""

    schema_version: int
    name: str
    verdict: str
    verdict_kind: VerdictKind
    reading: tuple[str, ...]
    candidate: str
    """The arm that was put to the test."""
    bases: tuple[Base, ...]
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    level: float
    alpha: float
    protocol_sha256: str
    splits: Mapping[str, Mapping[str, str]]
    """Task → split → hash of its prompts."""
    trained: int
    missing: int
    """Trainings that the protocol still asks for."""
    notes: tuple[str, ...]

    def arm(self, name: str, task: str | None = None) -> ArmResult | None:
        """Return the result of an arm, of the only or of the named task."""
        return next((arm for arm in self.arms if arm.arm == name and task in (None, arm.task)), None)

    @property
    def best_supported(self) -> ArmResult | None:
        """The adapter that advice may rest on: the candidate if confirmed, all-linear if refuted, else None.

        An arm that was never trained to its end supports nothing.
        """
        names = {"confirmed": self.candidate, "refuted": "all-linear"}
        arm = self.arm(names.get(self.verdict_kind, ""))
        return arm if arm is not None and arm.seeds else None

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values; nan and infinity become null."""
        return dict(strict_json.jsonable(asdict(self)))

    def write(self, folder: Path) -> Path:
        """Replace `ablation.json` in a folder.

        Raises:
            OSError: it cannot be written.
        """
        target = folder / FILE
        strict_json.replace_file(target, (strict_json.dumps(self.to_json(), indent=1) + "\n").encode())
        return target


def load(folder: Path) -> Ablation:
    """Return the result that a run directory, or the folder of a study, holds.

    Raises:
        NotARunError: there is none.
        SchemaError: it is damaged, or of another version.
    """
    path = folder / FILE if folder.is_dir() else folder
    try:
        content = strict_json.read(path)
    except FileNotFoundError:
        raise NotARunError(f"{folder} holds no {FILE}; `grpodyn ablate {folder}` makes one") from None
    except (OSError, ValueError) as error:
        raise SchemaError(f"{path} is not readable JSON: {error}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != VERSION:
        raise SchemaError(f"{path} has schema version {version!r}; this grpodyn reads version {VERSION}")
    try:
        return TypeAdapter(Ablation).validate_python(_with_nan(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        got = repr(first["input"])
        shown = got if len(got) <= _SHOWN else f"{got[:_SHOWN]}…"
        raise SchemaError(f"{path}: {where}: {first['msg']} (got {shown})") from error


# Fields that may be null because nothing is there, not because a number is unknown.
_NULLABLE = frozenset({"lora", "needs_seeds"})


def _with_nan(value: Any) -> Any:
    """Return JSON with null numbers as nan; an adapter's config keeps its nulls."""
    if isinstance(value, dict):
        return {
            key: item if key in _NULLABLE else math.nan if item is None else _with_nan(item)
            for key, item in value.items()
        }
    return [_with_nan(item) for item in value] if isinstance(value, list) else value
