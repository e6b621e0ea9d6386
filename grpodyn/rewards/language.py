"""Reward for staying in one script."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from grpodyn.errors import ConfigError
from grpodyn.rewards.completion import Completion, text_of


def language(
    prompts: Sequence[Any], completions: Sequence[Completion], *, script: str = "Latin", **_: Any
) -> list[float]:
    """Return the share of a completion's letters that belong to a script; 1.0 without letters, 0.0 for empty text.

    It tells scripts apart, not languages: it sees English turn into Chinese, but not into French.

    Args:
        prompts: of the completions.
        completions: text or messages; the thinking counts too.
        script: a script of Unicode, such as Latin, Cyrillic or Han.

    Raises:
        ConfigError: there is no such script.

    >>> language([""] * 4, ["four", "четыре", "2+2=4", ""])
    [1.0, 0.0, 1.0, 0.0]
    """
    return [_share(text_of(completion), script) for completion in completions]


def _share(text: str, script: str) -> float:
    letters, of_script = _classes(script)
    if not text.strip():
        return 0.0
    found = letters.findall(text)
    return len(of_script.findall(text)) / len(found) if found else 1.0


@cache
def _classes(script: str) -> tuple[Any, Any]:
    import regex  # noqa: PLC0415  # comes with transformers; knows the scripts of Unicode

    try:
        # Signs that several scripts share (Common, Inherited) speak for none of them.
        return (
            regex.compile(r"[\p{L}--\p{Script=Common}]", regex.V1),
            regex.compile(rf"[\p{{L}}&&\p{{Script={script}}}]", regex.V1),
        )
    except regex.error as error:
        raise ConfigError(
            f"the reward language has script {script!r}, expected a script of Unicode such as Latin, Cyrillic or Han"
        ) from error
