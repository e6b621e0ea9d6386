"""The embedded task: two-digit sums and differences, to be answered in one of four possible formats.

The embedded base model already knows the numbers but answers in a format drawn at random, in the wanted one least
often. What training must change is therefore a choice, not the confidence: no sampling temperature makes the base
answer in the wanted format.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from grpodyn.tasks.splits import split_all
from grpodyn.tasks.task import Examples, Split, as_split, dataset_of

if TYPE_CHECKING:
    from datasets import Dataset

OPERANDS = range(10, 100)


class AnswerFormat(StrEnum):
    """How a number may be written; the value is the template."""

    PLAIN = "{}"
    BRACKETED = "[{}]"
    MARKED = "#{}"
    DECIMAL = "{}.0"

    def write(self, number: int) -> str:
        """Return the number in this format.

        >>> [form.write(-7) for form in AnswerFormat]
        ['-7', '[-7]', '#-7', '-7.0']
        """
        return self.value.format(number)


WANTED = AnswerFormat.DECIMAL
"""The only format that is rewarded."""


@cache
def problems() -> dict[str, int]:
    """Return every prompt with the number that solves it.

    >>> problems()["23+45="], problems()["23-45="], len(problems())
    (68, -22, 16200)
    """
    solved = {f"{a}+{b}=": a + b for a in OPERANDS for b in OPERANDS}
    return solved | {f"{a}-{b}=": a - b for a in OPERANDS for b in OPERANDS}


@cache
def _all_splits() -> dict[Split, Examples]:
    return split_all({prompt: WANTED.write(number) for prompt, number in problems().items()})


class ArithmeticFormat:
    """Two-digit + and −; right is the exact number in the wanted format and nothing else.

    >>> task = ArithmeticFormat()
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 11348, 'choose': 1678, 'confirm': 1571, 'report': 1603}
    """

    name = "arithmetic_format"

    def split(self, name: str) -> Examples:
        """Return the examples of one split, in a fixed shuffled order."""
        return _all_splits()[as_split(name)]

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset` with the columns `prompt` and `answer`."""
        return dataset_of(self.split(split))
