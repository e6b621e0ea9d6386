"""Reward 1 for the right letter of a multiple-choice question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpodyn.errors import ConfigError
from grpodyn.rewards.answers import MARKS, Mark, Several, Unmarked, candidates
from grpodyn.rewards.completion import Completion
from grpodyn.rewards.thinking import answer_parts

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTER = re.compile(
    r"[*_\"'`(\[{]*(?:option |choice |answer )?[*_\"'`(\[{]*([A-Za-z])[*_\"'`)\]}]*"
    r"(?:[.:,)]\s*\S.*|\s+(?:because|since)\b.*)?[.:*_]*",
    re.DOTALL,
)
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]{0,400})\}|\\[()]|\$")
_SEVERAL = re.compile(r"\W*[A-Za-z]\b(?:\W+(?:(?:and|or)\W+)?[A-Za-z]\b)+\W*")
_LETTER_AND_TEXT = re.compile(r"[(\[]?([A-Z])[)\].:]\s*(\S.*)", re.DOTALL)


def multiple_choice(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    answer: Sequence[str],
    choices: Sequence[Any] | None = None,
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion that chooses the letter `answer`, else 0.0.

    Args:
        prompts: of the completions.
        completions: text or messages; what is inside the thinking is passed over.
        answer: letters.
        choices: where a data set has them, the texts of each question's choices in the order of their letters: a
            completion may then give the text in place of the letter.
        marks: which marks of an answer count.
        several: with several marked answers, `agree` wants all of them right: naming every letter earns nothing.
        unmarked: what counts where no answer is marked; `last_number` is none of a choice.
        opened: whether the chat template opens the thinking: what never closes it then gives no answer.

    Raises:
        ConfigError: an answer is no letter.

    >>> multiple_choice([""] * 4, ["C", "(C) a magnet", "The answer is C.", "The answer is B. Or C."], answer=["C"] * 4)
    [1.0, 1.0, 1.0, 0.0]
    """
    texts = answer_parts(completions, prompts, opened)
    offered = [_texts(choice) for choice in choices] if choices is not None else [()] * len(texts)
    given = [
        [chosen(candidate, of) for candidate in candidates(text, marks, several, unmarked)]
        for text, of in zip(texts, offered, strict=True)
    ]
    wanted = [gold_letter(letter) for letter in answer]
    return [float(bool(letters) and set(letters) == {gold}) for letters, gold in zip(given, wanted, strict=True)]


def valid_choice(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    choices: Sequence[Any],
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion that chooses one of the letters on offer, right or wrong, else 0.0.

    >>> valid_choice([""] * 3, ["B", "D", "all of them"], choices=[["yes", "no"]] * 3)
    [1.0, 0.0, 0.0]
    """
    result = []
    for text, choice in zip(answer_parts(completions, prompts, opened), choices, strict=True):
        of = _texts(choice)
        letters = {chosen(candidate, of) for candidate in candidates(text, marks, several, unmarked)}
        result.append(float(len(letters) == 1 and letters < {*LETTERS[: len(of)], ""} and "" not in letters))
    return result


def chosen(text: str, choices: Sequence[str] = ()) -> str:
    """Return the letter that an answer chooses, upper case; empty if it chooses none.

    >>> chosen("**(b)**"), chosen("a magnet"), chosen("a magnet", ["a stone", "a magnet"]), chosen("A, B or C")
    ('B', '', 'B', '')
    """
    plain = text.strip()
    same = [LETTERS[place] for place, choice in enumerate(choices) if _folded(choice) == _folded(plain)]
    if len(same) == 1:
        return same[0]
    plain = _LATEX.sub(lambda found: found[1] or "", plain).strip()
    if _SEVERAL.fullmatch(plain) and not any(len(_folded(choice)) == 1 for choice in choices):
        return ""
    both = _LETTER_AND_TEXT.fullmatch(plain)
    if both is not None and choices:
        # A letter with the text of another choice is no choice.
        letter = both[1]
        others = [choice for place, choice in enumerate(choices) if LETTERS[place] != letter]
        return "" if _folded(both[2]) in {_folded(other) for other in others} else letter
    found = _LETTER.fullmatch(plain)
    return found[1].upper() if found is not None else ""


def _texts(choice: Any) -> Sequence[str]:
    """Return the texts of a question's choices: a list, or ARC's mapping of `text` and `label`."""
    texts = choice.get("text", ()) if isinstance(choice, Mapping) else choice
    return [str(text) for text in texts or ()]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .*_\"'`")


def gold_letter(letter: str) -> str:
    """Return a right answer as an upper-case letter.

    Raises:
        ConfigError: it is none.
    """
    plain = str(letter).strip().upper()
    if len(plain) != 1 or plain not in LETTERS:
        raise ConfigError(
            f"the answer {str(letter)[:80]!r} is no letter, expected one of A to Z; the task multiple_choice makes "
            "letters of a data set's labels, numbers or texts"
        )
    return plain
