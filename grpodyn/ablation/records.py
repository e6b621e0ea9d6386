"""One trained arm: what was to be trained, and what came of it. No torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from grpodyn.trace import strict_json

Phase = Literal["base_choose", "base", "tune", "test"]
"""The base is measured on both splits; learning rates are picked on one, arms compared on the other."""


@dataclass(frozen=True)
class Job:
    """A training (or, of the base, an evaluation) and its measurement, fully determined."""

    task: str
    arm: str
    phase: Phase
    seed: int
    power: int
    """The learning rate is the rule's times 3 to this power."""
    learning_rate: float
    parameters: int
    """Trainable ones."""
    setup: Mapping[str, Any] = field(repr=False)
    """Model, task, trainer settings, splits and steps: what jobs that are compared have in common."""
    trains: Mapping[str, Any] = field(repr=False)
    """`{"lora": section}`, `{"temperature": true}`, `{"full": true}`, or nothing for the base."""

    @property
    def setup_key(self) -> str:
        """Hash of what compared jobs have in common."""
        return digest(self.setup)

    @property
    def key(self) -> str:
        """Hash of all that decides the outcome: two jobs of one key are one training."""
        return digest([self.setup_key, self.trains, self.seed, self.learning_rate, self.phase])


@dataclass(frozen=True)
class Record:
    """The outcome of a job, as one line of the ledger; accuracies are shares, nan if not measured."""

    key: str
    setup: str
    task: str
    arm: str
    phase: Phase
    seed: int
    power: int
    learning_rate: float
    parameters: int
    split: str
    split_sha256: str
    prompts: int
    accuracy: float
    """Mean exact probability of the right answer at T=1: pass@1."""
    greedy: float
    best_temperature: float
    best: float
    """At the best temperature of a grid."""
    by_temperature: Mapping[str, float]
    """Temperature → accuracy; "0" is greedy."""
    pass_at: Mapping[str, float]
    """k → chance that one of k samples is right."""
    kl: float
    """Forward KL of the base to the trained model on the task's prompts, nats a token."""
    skill_gain: float
    """Accuracy minus the base's at the temperature at which the base is as sure (same mean token entropy)."""
    perplexity: Mapping[str, float]
    """Text → perplexity per token, of a tested model and of the base."""
    curve: tuple[tuple[int, float], ...]
    """(step, accuracy at T=1 on the tuning split)."""
    seconds: float
    cpu_seconds: float
    error: str | None
    created_at: str
    versions: Mapping[str, str]

    def to_line(self) -> bytes:
        """Return the record as one line of JSON."""
        return strict_json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Record:
        """Return the record that a line held; null numbers are nan.

        Raises:
            KeyError: a field is missing.
            TypeError, ValueError: a field is of another kind.
        """
        got: dict[str, Any] = {spec.name: value[spec.name] for spec in fields(cls)}
        for name in _NUMBERS:
            got[name] = float("nan") if got[name] is None else float(got[name])
        got["curve"] = tuple((int(step), float("nan") if y is None else float(y)) for step, y in got["curve"])
        return cls(**got)


_NUMBERS = tuple(spec.name for spec in fields(Record) if spec.type == "float")


def digest(value: Any) -> str:
    """Return a hash of plain JSON values that does not depend on the order of keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(strict_json.jsonable(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
