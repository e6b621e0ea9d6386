"""Two steps: two digits are added, and their sum modulo eight commands the new order of the letters between them.

Sixty-four pairs share eight sums, and each sum has three readings, of which the base draws one at random. Over all sums
every order is once the likeliest, once the second and once the wanted one. What has to be read anew is a sum, and a sum
is there only once the digits have been added.
"""

from __future__ import annotations

from typing import Final

from grpodyn.tasks.joint_commands import around
from grpodyn.tasks.letter_shifts import DISTANCES
from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import ORDERS, in_order

DIGITS: Final = "01234567"
LETTERS: Final = "abcdef"


def order_of(first: str, second: str, reading: int) -> str:
    """Return the order that two digits stand for under a reading.

    >>> [order_of("6", "3", reading) for reading in range(3)]
    ['reversed', 'ends swapped', 'rotated right']
    """
    return list(ORDERS)[DISTANCES[reading][(int(first) + int(second)) % len(ORDERS)]]


class SumCommands(ReadingTask):
    """`6fbca3=` asks for the letters of `fbca` in the order of 6 + 3 = 1 (mod 8): rotated right.

    >>> task = SumCommands()
    >>> task.answer("6fbca3="), [task.read("6fbca3=", reading) for reading in range(3)]
    ('afbc', ['acbf', 'abcf', 'afbc'])
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 16194, 'choose': 2260, 'confirm': 2341, 'report': 2245}
    """

    name = "sum_commands"
    shares = (0.45, 0.35, 0.20)

    @classmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return every pair of digits around every string of four different letters."""
        return around(DIGITS, DIGITS, LETTERS)

    @classmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the string in the order that the sum of its digits stands for under `reading`."""
        return in_order(prompt[1:5], order_of(prompt[0], prompt[5], reading))
