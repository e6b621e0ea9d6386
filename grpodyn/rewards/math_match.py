"""Reward 1 for a right mathematical answer: an expression, a set, an interval, a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from grpodyn.rewards.answers import MARKS, Mark, Several, Unmarked, candidates
from grpodyn.rewards.completion import Completion
from grpodyn.rewards.numbers import measured
from grpodyn.rewards.referee import MOST_CHARACTERS, referee
from grpodyn.rewards.thinking import answer_parts

_WORD: Final = re.compile(r"\s+[^\W\d_]{2}")
"""Begins a unit in words, which stands apart from its number; a letter alone, or one that touches it, is a variable."""


def math_match(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    answer: Sequence[Any],
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    **_: Any,
) -> list[float]:
    r"""Return 1.0 for each completion whose answer equals `answer` as mathematics, else 0.0.

    Numbers are compared here and exactly; everything else by math-verify, in a process that is killed after five
    seconds: the answer is wrong then. Needs the extra `tasks`.

    Args:
        prompts: of the completions.
        completions: text or messages; what is inside the thinking is passed over.
        answer: LaTeX or plain expressions.
        marks: which marks of an answer count.
        several: with several marked answers, `agree` wants all of them right.
        unmarked: what counts where no answer is marked; `last_number` is none of an expression.
        opened: whether the chat template opens the thinking: what never closes it then gives no answer.

    Raises:
        ConfigError: math-verify is not installed.
    """
    given = [candidates(text, marks, several, unmarked) for text in answer_parts(completions, prompts, opened)]
    pairs = [(candidate, str(gold)) for found, gold in zip(given, answer, strict=True) for candidate in found]
    open_ones = [pair for pair in dict.fromkeys(pairs) if _as_numbers(*pair) is None]
    judged = referee("math").judge([{"given": _latex(a), "gold": _latex(b)} for a, b in open_ones])
    right = {pair: score > 0 for pair, score in zip(open_ones, judged, strict=True)}
    return [
        float(bool(found) and all(_as_numbers(c, str(gold)) or right.get((c, str(gold)), False) for c in found))
        for found, gold in zip(given, answer, strict=True)
    ]


def _as_numbers(given: str, gold: str) -> bool | None:
    """Return whether two numbers are equal; None where one of them is no number and has to be judged."""
    if len(given) > MOST_CHARACTERS:
        return False
    a, b = measured(given), measured(gold)
    if a is None or b is None:
        return None
    (value, unit), (wanted, of_wanted) = a, b
    if _letters(of_wanted) or (_letters(unit) and not _WORD.match(unit)):
        return None  # 2x is not 2, and 5 cm not 5 m
    # A percent sign may mean a hundredth, and kilometres are not metres: what differs is not settled here.
    return value == wanted or (None if unit or of_wanted else False)


def _letters(unit: str) -> bool:
    return any(character.isalpha() for character in unit)


def _latex(text: str) -> str:
    return text if "$" in text or "\\boxed" in text else f"${text}$"
