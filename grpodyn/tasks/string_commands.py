"""A string transformation: a digit commands how four letters are put in another order.

Each command has three readings, and the base draws one of them at random. Over all commands every order is equally
often the likeliest, the second and the wanted reading: preferring some order helps nothing, each command has to be read
anew.
"""

from __future__ import annotations

from itertools import permutations
from typing import Final

from grpodyn.tasks.readings import ReadingTask

LETTERS: Final = "abcdefgh"
COMMANDS: Final = "12345678"
ORDERS: Final = {
    "kept": (0, 1, 2, 3),
    "reversed": (3, 2, 1, 0),
    "rotated left": (1, 2, 3, 0),
    "rotated right": (3, 0, 1, 2),
    "halves swapped": (2, 3, 0, 1),
    "neighbours swapped": (1, 0, 3, 2),
    "ends swapped": (3, 1, 2, 0),
    "middle swapped": (0, 2, 1, 3),
}
"""Where each letter of the answer stands in the string."""

_STEP: Final = (0, 3, 5)


def strings_of(letters: str) -> list[str]:
    """Return every string of four different letters.

    >>> strings_of("abcd")[:3], len(strings_of(LETTERS))
    (['abcd', 'abdc', 'acbd'], 1680)
    """
    return ["".join(four) for four in permutations(letters, 4)]


def in_order(string: str, order: str) -> str:
    """Return a string with its letters in one of `ORDERS`.

    >>> in_order("fbca", "rotated left")
    'bcaf'
    """
    return "".join(string[place] for place in ORDERS[order])


def order_of(command: str, reading: int) -> str:
    """Return the order that a command stands for under a reading.

    >>> [order_of("2", reading) for reading in range(3)]
    ['reversed', 'halves swapped', 'ends swapped']
    """
    return list(ORDERS)[(COMMANDS.index(command) + _STEP[reading]) % len(ORDERS)]


class StringCommands(ReadingTask):
    """`2fbca=` asks for the letters of `fbca` with the ends swapped; right is exactly that.

    >>> task = StringCommands()
    >>> task.answer("2fbca="), [task.read("2fbca=", reading) for reading in range(3)]
    ('abcf', ['acbf', 'cafb', 'abcf'])
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 9426, 'choose': 1355, 'confirm': 1312, 'report': 1347}
    """

    name = "string_commands"
    shares = (0.45, 0.35, 0.20)

    @classmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return every command with every string of four different letters."""
        return tuple(f"{command}{string}=" for command in COMMANDS for string in strings_of(LETTERS))

    @classmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the string in the order that the command stands for under `reading`."""
        return in_order(prompt[1:5], order_of(prompt[0], reading))
