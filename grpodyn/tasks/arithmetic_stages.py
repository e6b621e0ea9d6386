"""Five kinds of arithmetic from easy to hard: the stages of a curriculum, each a task of its own, and all together.

The stages are those of a public post on GRPO from scratch (addition_easy, single_digit, two_digit, multiplication,
percentage). All prompts have six characters, and none belongs to two stages. The bases that this package makes for them
answer rightly, or with the slip of the kind; which one is drawn at random, and the slip is the likelier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from grpodyn.tasks.splits import split_all
from grpodyn.tasks.task import SPLITS, Examples, Split, as_split, dataset_of

if TYPE_CHECKING:
    from datasets import Dataset

DIGITS: Final = range(10)
TWO_DIGITS: Final = range(10, 100)
FACTORS: Final = range(2, 10)


@dataclass(frozen=True)
class Solved:
    """What a prompt asks for, and the wrong answer of its kind."""

    answer: str
    slip: str


def written(number: Decimal) -> str:
    """Return a number in plain digits, with no zero after its last decimal.

    >>> [written(Decimal(text)) for text in ("15.0", "14.10", "-3", "0.4")]
    ['15', '14.1', '-3', '0.4']
    """
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sums_with_one_digit() -> dict[str, Solved]:
    # The slip is a step too far on the fingers.
    return {f"{a:02}+{b:02}=": Solved(str(a + b), str(a + b + 1)) for a in range(100) for b in DIGITS}


def _three_single_digits() -> dict[str, Solved]:
    # The slip takes the first sign for the second too, or, where both are alike, turns the second.
    found = {}
    for a in DIGITS:
        for b in DIGITS:
            for c in DIGITS:
                for first, second in ("++", "+-", "-+", "--"):
                    start = a + b if first == "+" else a - b
                    right, other = (start + c, start - c) if second == "+" else (start - c, start + c)
                    found[f"{a}{first}{b}{second}{c}="] = Solved(str(right), str(other if c else right + 1))
    return found


def _two_digits() -> dict[str, Solved]:
    # The slip is a ten carried that was not there.
    found = {}
    for a in TWO_DIGITS:
        for b in TWO_DIGITS:
            found[f"{a}+{b}="] = Solved(str(a + b), str(a + b + 10))
            found[f"{a}-{b}="] = Solved(str(a - b), str(a - b + 10))
    return found


def _products() -> dict[str, Solved]:
    found = {}
    for a in TWO_DIGITS:
        for b in FACTORS:
            solved = Solved(str(a * b), str(a * b + 10))
            found[f"{a}*{b:02}="] = found[f"{b:02}*{a}="] = solved
    return found


def _percentages() -> dict[str, Solved]:
    # The slip puts the decimal point one place too far right.
    found = {}
    for a in TWO_DIGITS:
        for b in range(1, 10):
            for percent in (b, 10 * b):
                share = Decimal(percent * a) / 100
                found[f"{percent:02}%{a}="] = Solved(written(share), written(share * 10))
    return found


_STAGES: Final[dict[str, Callable[[], dict[str, Solved]]]] = {
    "addition_easy": _sums_with_one_digit,
    "single_digit": _three_single_digits,
    "two_digit": _two_digits,
    "multiplication": _products,
    "percentage": _percentages,
}
STAGE_NAMES: Final = tuple(_STAGES)
"""From easy to hard."""


@cache
def solved(stage: str) -> Mapping[str, Solved]:
    """Return every prompt of a stage with its right answer and its slip.

    >>> [(prompt, solved(stage)[prompt]) for stage, prompt in (("single_digit", "3+4-5="), ("percentage", "30%47="))]
    [('3+4-5=', Solved(answer='2', slip='12')), ('30%47=', Solved(answer='14.1', slip='141'))]
    """
    return _STAGES[stage]()


@cache
def all_solved() -> Mapping[str, Solved]:
    """Return the prompts of all stages."""
    return {prompt: each for stage in STAGE_NAMES for prompt, each in solved(stage).items()}


@cache
def _splits_of(stage: str) -> dict[Split, Examples]:
    return split_all({prompt: each.answer for prompt, each in solved(stage).items()})


@cache
def _splits_together() -> dict[Split, Examples]:
    # As many of each stage: the largest one would drown the others. In turns, so that the first n are balanced too.
    together = {}
    for split in SPLITS:
        parts = [_splits_of(stage)[split] for stage in STAGE_NAMES]
        fewest = min(map(len, parts))
        order = [(part, i) for i in range(fewest) for part in parts]
        together[split] = Examples(
            tuple(part.prompts[i] for part, i in order), tuple(part.answers[i] for part, i in order)
        )
    return together


class ArithmeticStage:
    """One kind of arithmetic; right is the number and nothing else."""

    name: ClassVar[str]

    def split(self, name: str) -> Examples:
        """Return the examples of one split, in a fixed shuffled order."""
        return _splits_of(self.name)[as_split(name)]

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset` with the columns `prompt` and `answer`."""
        return dataset_of(self.split(split))


class AdditionEasy(ArithmeticStage):
    """`47+06=`: up to two digits and one digit.

    >>> {split: len(AdditionEasy().split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 708, 'choose': 92, 'confirm': 106, 'report': 94}
    """

    name = "addition_easy"


class SingleDigit(ArithmeticStage):
    """`3+4-5=`: three single digits."""

    name = "single_digit"


class TwoDigit(ArithmeticStage):
    """`23-45=`: sums and differences of two digits."""

    name = "two_digit"


class Multiplication(ArithmeticStage):
    """`47*06=`: two digits times one, either first."""

    name = "multiplication"


class Percentage(ArithmeticStage):
    """`30%47=`: 1 to 9 and 10 to 90 per cent of two digits, in decimals."""

    name = "percentage"


class ArithmeticCurriculum:
    """The five stages together, as many prompts of each: what a curriculum is tested on, or trained on at once instead.

    >>> task = ArithmeticCurriculum()
    >>> task.split("report").prompts[:5]
    ('65+01=', '0-3-5=', '99-63=', '54*09=', '01%31=')
    >>> task.split("report").answers[:5]
    ('66', '-8', '36', '486', '0.31')
    """

    name = "arithmetic_curriculum"

    def split(self, name: str) -> Examples:
        """Return the examples of one split, the stages in turns."""
        return _splits_together()[as_split(name)]

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset` with the columns `prompt` and `answer`."""
        return dataset_of(self.split(split))


STAGE_TASKS: Final = (AdditionEasy, SingleDigit, TwoDigit, Multiplication, Percentage)
