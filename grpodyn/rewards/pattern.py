"""Reward 1 for completions of a form that a regular expression describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from grpodyn.errors import ConfigError
from grpodyn.rewards.completion import Completion, text_of

SECONDS = 0.5
"""Of one completion: on the wrong text a harmless-looking expression can take for ever, and models find such texts."""


def pattern(
    prompts: Sequence[Any], completions: Sequence[Completion], *, expression: str, whole: bool = True, **_: Any
) -> list[float]:
    r"""Return 1.0 for each completion that matches a regular expression, else 0.0.

    Args:
        prompts: of the completions.
        completions: text or messages.
        expression: in the syntax of the library `regex`; the dot matches newlines.
        whole: whether it must match the whole completion, or some part of it.

    Raises:
        ConfigError: the expression is none.

    >>> pattern([""] * 2, ["so: 12", "twelve"], expression=r".*: \d+")
    [1.0, 0.0]
    """
    compiled = _compiled(expression)
    matches = compiled.fullmatch if whole else compiled.search
    return [float(_matches(matches, text_of(completion))) for completion in completions]


def _matches(matches: Any, text: str) -> bool:
    try:
        return matches(text, timeout=SECONDS) is not None
    except TimeoutError:
        return False


@cache
def _compiled(expression: str) -> Any:
    import regex  # noqa: PLC0415  # comes with transformers; unlike `re` it can be given a time limit

    try:
        return regex.compile(expression, regex.DOTALL)
    except regex.error as error:
        raise ConfigError(f"the reward pattern has the expression {expression!r}, which is none: {error}") from error
