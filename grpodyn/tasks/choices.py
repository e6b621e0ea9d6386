"""Multiple-choice questions: ARC, and any data set with a question, its choices and the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpodyn.config.validation import StrictModel
from grpodyn.tasks.rows import DatasetTask, Row
from grpodyn.tasks.source import Source

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class ChoiceOptions(StrictModel):
    """Columns of the data set."""

    question: str = "question"
    choices: str | list[str] = "choices"
    """A column with a list of texts or with ARC's `text` and `label`, or a list of columns, one a choice."""
    answer: str = "answer"
    """The right choice: its letter, its label, its number from 0, or its text."""


class ArcOptions(ChoiceOptions):
    """The columns of ARC."""

    answer: str = "answerKey"


class MultipleChoice(DatasetTask):
    """The prompt is the question and its choices, lettered anew from A; `answer` is the letter, `choices` the texts."""

    name = "multiple_choice"
    options_type = ChoiceOptions
    template = "{prompt}\nAnswer with the letter of the right choice, such as: The answer is A."

    def convert(self, row: Row) -> dict[str, Any]:
        """Return question with choices, letter and texts."""
        question = self.text(row, self.options.question, "question")
        texts, labels = self._choices(row)
        if not 2 <= len(texts) <= len(LETTERS):
            raise ValueError(f"it has {len(texts)} choices, expected 2 to {len(LETTERS)}")
        place = _place(self.column(row, self.options.answer, "answer"), texts, labels)
        listed = "\n".join(f"{LETTERS[i]}. {text}" for i, text in enumerate(texts))
        return {"prompt": f"{question}\n{listed}", "answer": LETTERS[place], "choices": texts}

    def _choices(self, row: Row) -> tuple[list[str], list[str]]:
        names = self.options.choices
        if isinstance(names, list):
            return [str(self.column(row, name, "choices")) for name in names], []
        value = self.column(row, names, "choices")
        if isinstance(value, Mapping):
            return [str(text) for text in value.get("text", ())], [str(label) for label in value.get("label", ())]
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError(f"its choices are {str(value)[:60]!r}, expected a list")
        return [str(text) for text in value], []


class ArcChallenge(MultipleChoice):
    """ARC's harder questions of science; some are labelled 1 to 4, and lettered here like the others.

    Reference: Clark et al., Think you have Solved Question Answering?, arXiv:1803.05457.
    """

    name = "arc_challenge"
    home = Source("allenai/ai2_arc", "ARC-Challenge")
    options_type = ArcOptions


def _place(answer: Any, texts: Sequence[str], labels: Sequence[str]) -> int:
    """Return which choice is right, from 0."""
    if isinstance(answer, int) and not isinstance(answer, bool) and not labels and 0 <= answer < len(texts):
        return answer
    said = str(answer).strip()
    # A label is what the data itself says; then the text, as some data sets have choices such as "B" and "A".
    for offered in (list(labels), list(texts), list(LETTERS[: len(texts)])):
        if offered.count(said) == 1:
            return offered.index(said)
    raise ValueError(f"its answer is {said[:60]!r}, expected one of {list(labels) or list(LETTERS[: len(texts)])}")
