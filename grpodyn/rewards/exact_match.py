"""Reward 1 for exactly the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpodyn.rewards.completion import Completion, text_of


def exact_match(
    prompts: Sequence[Any], completions: Sequence[Completion], answer: Sequence[str], **_: Any
) -> list[float]:
    """Return 1.0 for each completion that equals its answer character for character, else 0.0.

    A completion that was cut off counts as wrong only if it is longer than the answer: leave `max_completion_length`
    above the longest answer, so that whatever equals an answer was ended by the model.

    >>> exact_match(["1+1="] * 3, ["2.0", "2", "2.0 "], answer=["2.0"] * 3)
    [1.0, 0.0, 0.0]
    """
    return [float(text_of(given) == right) for given, right in zip(completions, answer, strict=True)]
