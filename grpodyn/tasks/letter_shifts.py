"""A new operation on strings: a digit commands how far each of four letters moves on in the alphabet.

Each command has three readings, and the base draws one of them at random. Over all commands every distance is once the
likeliest, once the second and once the wanted reading, and the wanted distance is not the likeliest plus a constant:
each command has to be read anew.
"""

from __future__ import annotations

from typing import Final

from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import COMMANDS, LETTERS, StringCommands

DISTANCES: Final = (
    (0, 1, 2, 3, 4, 5, 6, 7),
    (3, 6, 0, 5, 7, 2, 4, 1),
    (5, 3, 7, 2, 0, 6, 1, 4),
)
"""Of each reading, how far the letters move for the commands 1, 2, … 8."""


class LetterShifts(ReadingTask):
    """`2fbca=` asks for the letters of `fbca` moved on by three, `h` being followed by `a`.

    >>> task = LetterShifts()
    >>> task.answer("2fbca="), [task.read("2fbca=", reading) for reading in range(3)]
    ('aefd', ['gcdb', 'dhag', 'aefd'])
    >>> {split: len(task.split(split)) for split in ("train", "choose", "confirm", "report")}
    {'train': 9426, 'choose': 1355, 'confirm': 1312, 'report': 1347}
    """

    name = "letter_shifts"
    shares = (0.45, 0.35, 0.20)

    @classmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return the prompts of `StringCommands`, which this task reads otherwise."""
        return StringCommands.prompts()

    @classmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the string moved on by the distance that the command stands for under `reading`."""
        distance = DISTANCES[reading][COMMANDS.index(prompt[0])]
        return "".join(LETTERS[(LETTERS.index(letter) + distance) % len(LETTERS)] for letter in prompt[1:5])
