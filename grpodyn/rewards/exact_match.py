"""Reward 1 for exactly the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpodyn.errors import ConfigError
from grpodyn.rewards.completion import Completion, text_of


def exact_match(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    answer: Sequence[str],
    *,
    until: str | None = None,
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion that equals its answer character for character, else 0.0.

    A completion that was cut off counts as wrong only if it is longer than the answer: leave `max_completion_length`
    above the longest answer, so that whatever equals an answer was ended by the model.

    Args:
        prompts: of the completions.
        completions: text or messages.
        answer: the right answer of each.
        until: only what stands before the first such text counts, so that running on after the answer costs nothing;
            null for the whole completion.

    >>> exact_match(["1+1="] * 3, ["2.0", "2", "2.0 "], answer=["2.0"] * 3)
    [1.0, 0.0, 0.0]
    >>> exact_match(["1+1="] * 2, ["2.0 and on", "2.00 "], answer=["2.0"] * 2, until=" ")
    [1.0, 0.0]
    """
    texts = [text_of(given) for given in completions]
    if until:
        texts = [text.partition(until)[0] for text in texts]
    return [float(text == right) for text, right in zip(texts, answer, strict=True)]


def gold_text(wanted: Any) -> str:
    """Return a right answer, which must be text: no completion equals the number 12.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(wanted, str):
        raise ConfigError(
            f"the answer {str(wanted)[:80]} is a {type(wanted).__name__}, expected text; write it as text, or "
            "use the reward numeric_match for numbers"
        )
    return wanted
