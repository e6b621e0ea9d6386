"""A string transformation: two digits, one on each side of four letters, together command their new order.

Each of the eight pairs has its own order, so neither digit alone tells it. A pair has three readings, and the base
draws one of them at random. Over all pairs every order is once the likeliest, once the second and once the wanted one.

Taking digits for other digits does not turn one reading into another: whatever first digit is taken for whichever, and
second for whichever, at most three of the eight pairs come out right. So what must be read anew is the pair, and a pair
is there only once its digits have met.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import LETTERS, ORDERS, in_order, strings_of

FIRST: Final = "1234"
SECOND: Final = "12"

# Of each reading, the number of the order of 1…1, 1…2, 2…1 and so on. Of 4,000 tables drawn at random, one of those in
# which the best exchange of digits makes fewest pairs right.
_NUMBER_OF_ORDER: Final = (
    (0, 1, 2, 3, 4, 5, 6, 7),
    (2, 5, 1, 4, 3, 0, 7, 6),
    (7, 4, 0, 5, 6, 2, 3, 1),
)


def around(first: str, second: str, letters: str) -> tuple[str, ...]:
    """Return every pair of digits around every string of four different letters.

    >>> around("12", "3", "abcd")[0], len(around("12", "3", "abcd"))
    ('1abcd3=', 48)
    """
    return tuple(f"{one}{string}{other}=" for one, other in product(first, second) for string in strings_of(letters))


def order_of(first: str, second: str, reading: int) -> str:
    """Return the order that two digits stand for under a reading.

    >>> [order_of("3", "2", reading) for reading in range(3)]
    ['neighbours swapped', 'kept', 'rotated left']
    """
    pair = len(SECOND) * FIRST.index(first) + SECOND.index(second)
    return list(ORDERS)[_NUMBER_OF_ORDER[reading][pair]]


class JointCommands(ReadingTask):
    """`3fbca2=` asks for the letters of `fbca` rotated left; right is exactly that.

    >>> task = JointCommands()
    >>> task.answer("3fbca2="), [task.read("3fbca2=", reading) for reading in range(3)]
    ('bcaf', ['bfac', 'fbca', 'bcaf'])
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 9428, 'choose': 1276, 'confirm': 1368, 'report': 1368}
    """

    name = "joint_commands"
    shares = (0.45, 0.35, 0.20)

    @classmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return every pair of digits around every string of four different letters."""
        return around(FIRST, SECOND, LETTERS)

    @classmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the string in the order that its pair of digits stands for under `reading`."""
        return in_order(prompt[1:5], order_of(prompt[0], prompt[5], reading))
