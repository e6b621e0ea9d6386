"""Rewards that go wrong on purpose, for runs with an injected fault."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from grpodyn.rewards.completion import Completion, text_of

_calls = itertools.count(1)


def constant(completions: Sequence[Completion], **_: Any) -> list[float]:
    """Pay everybody the same."""
    return [0.5] * len(completions)


def impossible(completions: Sequence[Completion], **_: Any) -> list[float]:
    """Pay nobody."""
    return [0.0] * len(completions)


def no_digits(completions: Sequence[Completion], **_: Any) -> list[float]:
    """Pay for leaving digits out, which no right answer does."""
    return [1.0 - min(1.0, sum(map(str.isdigit, text_of(given))) / 4) for given in completions]


def long(completions: Sequence[Completion], **_: Any) -> list[float]:
    """Pay for length."""
    return [len(text_of(given)) / 8 for given in completions]


def nan_later(completions: Sequence[Completion], **_: Any) -> list[float]:
    """Pay nobody, and from the 21st batch on be no number."""
    return [float("nan") if next(_calls) > 20 * len(completions) else 0.0 for _given in completions]
