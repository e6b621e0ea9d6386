"""Reward 1 for the right number, however it is written."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field

from grpodyn.errors import ConfigError
from grpodyn.rewards.answers import MARKS, Mark, Several, Unmarked, candidates
from grpodyn.rewards.completion import Completion
from grpodyn.rewards.numbers import number, numbers_in
from grpodyn.rewards.thinking import answer_parts


def numeric_match(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    answer: Sequence[Any],
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    **_: Any,
) -> list[float]:
    r"""Return 1.0 for each completion whose answer is the number `answer`, else 0.0.

    Args:
        prompts: of the completions; one that ends in `<think>` opens the thinking.
        completions: text or messages; what is inside the thinking is passed over.
        answer: numbers, as text or not; `… #### 1,234` counts as 1234.
        marks: which marks of an answer count.
        several: with several marked answers, `agree` wants all of them right.
        unmarked: what counts where no answer is marked; `last_number` takes the last one that the text names.
        opened: whether the chat template opens the thinking: what never closes it then gives no answer.
        tolerance: largest difference that is still right, in the answer's unit.

    Raises:
        ConfigError: an answer is no number.

    >>> texts = ["The answer is 1,234.", r"\boxed{1234.0}", "1234", "<think>1234</think>5", "1233 or 1234"]
    >>> numeric_match([""] * 5, texts, answer=["1234"] * 5)
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """
    scored = zip(answer_parts(completions, prompts, opened), answer, strict=True)
    return [
        # As it is written: the float 0.3 is a little less than three tenths.
        float(_is_right(text, gold_number(wanted), marks, several, unmarked, Fraction(str(tolerance))))
        for text, wanted in scored
    ]


def numeric(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion whose answer is some number, right or wrong, else 0.0; options as `numeric_match`.

    >>> numeric([""] * 3, ["#### 7", "#### seven", ""])
    [1.0, 0.0, 0.0]
    """
    return [
        float(bool(given := _given(text, marks, several, unmarked)) and None not in given)
        for text in answer_parts(completions, prompts, opened)
    ]


def gold_number(wanted: Any) -> Fraction:
    """Return a right answer as a number.

    Raises:
        ConfigError: it is none.

    >>> gold_number("9 * 2 = 18, so #### 1,018"), gold_number(0.5)
    (Fraction(1018, 1), Fraction(1, 2))
    """
    text = str(wanted).rpartition("####")[2]
    value = number(text)
    if value is None:
        raise ConfigError(
            f"the answer {str(wanted)[:80]!r} is no number, expected one such as '1,234', '-3/4' or '1.5e3'; set "
            "task.answer to the column that holds the number, or use the reward math_match for expressions"
        )
    return value


def _given(text: str, marks: Sequence[Mark], several: Several, unmarked: Unmarked) -> list[Fraction | None]:
    found = candidates(text, marks, several, unmarked)
    if not found and unmarked == "last_number":
        return list(numbers_in(text)[-1:])
    return [number(candidate) for candidate in found]


def _is_right(
    text: str, wanted: Fraction, marks: Sequence[Mark], several: Several, unmarked: Unmarked, tolerance: Fraction
) -> bool:
    given = _given(text, marks, several, unmarked)
    return bool(given) and all(value is not None and abs(value - wanted) <= tolerance for value in given)
