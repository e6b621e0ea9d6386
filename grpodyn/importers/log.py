"""A log as its producer wrote it: rows of numbers under the producer's own keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A number that some printers wrap, or that a table shows with a thousands separator or a percent sign.
_WRAPPED = re.compile(r"^(?:np\.|numpy\.|torch\.)?[A-Za-z_]\w*\((.+?)(?:, *dtype=[^)]*)?\)$")
_ABSENT = frozenset({"", "no log", "-", "–", "n/a", "na"})
_NAMED = {
    "nan": math.nan,
    "none": math.nan,
    "null": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


@dataclass(frozen=True)
class LogRow:
    """One entry of a log. A value of nan was logged as NaN or null; a key that is not there was not logged."""

    values: Mapping[str, float]
    step: int | None = None
    """The optimizer step; None where the entry does not say."""
    time: float | None = None
    """Seconds since 1970."""


@dataclass(frozen=True)
class Batch:
    """Scored completions of one step: arrays (prompt, generation), and (prompt, generation, reward function)."""

    step: int
    prompt_id: NDArray[np.int64]
    reward: NDArray[np.float64]
    advantage: NDArray[np.float64]
    rewards: NDArray[np.float64]


@dataclass(frozen=True)
class Log:
    """What a file held."""

    producer: str
    """Which kind of log it is, in words."""
    rows: tuple[LogRow, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the log says of the trainer's arguments."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know, a sentence each."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Key -> why it is no metric."""
    batches: tuple[Batch, ...] = ()
    reward_functions: tuple[str, ...] = ()
    step_key: str | None = None
    """The key that steps were read from."""


def number(value: object) -> float | None:
    """Return a logged value as a number, None where it is none (text, lists) or absent.

    >>> number("No Log"), number("1,024"), number("np.float64(0.5)"), number("nan"), number(True)
    (None, 1024.0, 0.5, nan, 1.0)
    """
    if isinstance(value, bool | int | float):
        return _finite_or_infinite(value)
    if not isinstance(value, str):
        return math.nan if value is None else None
    text = value.strip()
    wrapped = _WRAPPED.match(text)
    if wrapped:
        text = wrapped.group(1).strip()
    if text.lower() in _ABSENT:
        return None
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    try:
        return float(text.replace(",", "") if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", text) else text)
    except ValueError:
        return None


def _finite_or_infinite(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def flattened(entry: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of an entry, keys of nested mappings joined by `/`.

    >>> list(flattened({"step": 1, "train": {"reward": 0.5}}))
    [('step', 1), ('train/reward', 0.5)]
    """
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value
