"""A string transformation: two digits, one on each side of four letters, together command their new order.

Neither digit alone says anything about the order: under every reading, each first digit goes with the orders equally
often, and so does each second one. Nor does the order under one reading say anything about another reading's. The
readings are related all the same: exchanging the second digits for one another turns one reading into another.

The readings are three mutually orthogonal Latin squares: the order's number is a + r·b in the field of four elements,
for the digits a and b and the reading r.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Final

from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import LETTERS, ORDERS

FIRST: Final = "1234"
SECOND: Final = "123"
"""No fourth: the readings of the pairs with b = 0 would be the same."""

ORDER_NAMES: Final = ("kept", "neighbours swapped", "halves swapped", "reversed")
"""By number. They begin with four different letters."""

# Of the field of four elements {0, 1, x, x+1}, numbered 0 to 3; its sum is the exclusive or.
_PRODUCT: Final = ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))


def order_of(first: str, second: str, reading: int) -> str:
    """Return the order that two digits stand for under a reading.

    >>> [order_of("2", "1", reading) for reading in range(3)]
    ['kept', 'reversed', 'halves swapped']
    """
    a, b = FIRST.index(first), 1 + SECOND.index(second)
    return ORDER_NAMES[a ^ _PRODUCT[reading + 1][b]]


class PairCommands(ReadingTask):
    """`2fbca1=` asks for the letters of `fbca` with the halves swapped; right is exactly that.

    >>> task = PairCommands()
    >>> task.answer("2fbca1="), [task.read("2fbca1=", reading) for reading in range(3)]
    ('cafb', ['fbca', 'acbf', 'cafb'])
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 14084, 'choose': 1929, 'confirm': 2070, 'report': 2077}
    """

    name = "pair_commands"
    shares = (0.45, 0.35, 0.20)

    @classmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return every pair of digits around every string of four different letters."""
        strings = ["".join(letters) for letters in permutations(LETTERS, 4)]
        return tuple(f"{a}{string}{b}=" for a, b in product(FIRST, SECOND) for string in strings)

    @classmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the string in the order that its pair of digits stands for under `reading`."""
        return "".join(prompt[1 + place] for place in ORDERS[order_of(prompt[0], prompt[5], reading)])
