"""The base models that this package knows how to make: the shipped one, and its siblings for other tasks.

A base is taught every way of answering its task's prompts, each in its share, and answers by one drawn at random; what
GRPO rewards is the rarest. Plain values and functions: nothing here needs torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from grpodyn.embedded import SHIPPED
from grpodyn.embedded.pretraining import Mixture, Recipe
from grpodyn.embedded.tokenizer import CHARACTERS
from grpodyn.errors import UnknownNameError
from grpodyn.tasks.arithmetic_format import AnswerFormat, ArithmeticFormat, problems
from grpodyn.tasks.joint_commands import FIRST, JointCommands
from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import COMMANDS, LETTERS, StringCommands

FORMAT_SHARES: Final = {
    AnswerFormat.PLAIN: 0.36,
    AnswerFormat.BRACKETED: 0.30,
    AnswerFormat.MARKED: 0.28,
    AnswerFormat.DECIMAL: 0.06,
}
"""How often the shipped base meets each format. The wanted one is rare, but common enough that groups of eight find
it."""


@dataclass(frozen=True)
class Base:
    """How a base model is made."""

    name: str
    """In a run config: `model: NAME`."""
    task: str
    """The task that it is a base for."""
    about: str
    """One sentence for its card."""
    characters: str
    """The vocabulary: one token a character."""
    layers: int
    local_layers: int
    """How many of them, from the first on, see only the token before beside their own."""
    recipe: Recipe
    ways: Mapping[str, Callable[[str], str]]
    """The ways of answering a prompt, by name; the last is the one that the task rewards."""
    shares: tuple[float, ...]
    """How often the base meets each way."""
    prompts: Callable[[], Sequence[str]]
    """All prompts of the task; the base is taught those of `train`."""

    def mixture(self) -> Mixture:
        """Return what the base is taught."""
        return Mixture.of(self.prompts(), list(self.ways.values()), self.shares)

    def digest(self) -> str:
        """Return a digest of everything that decides the weights, short of versions and the CPU."""
        mixture = self.mixture()
        parts = {
            "characters": self.characters,
            "layers": self.layers,
            "local_layers": self.local_layers,
            "recipe": asdict(self.recipe),
            "prompts": mixture.prompts,
            "answers": mixture.answers,
            "shares": mixture.shares,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _in_format(form: AnswerFormat) -> Callable[[str], str]:
    return lambda prompt: form.write(problems()[prompt])


def _under_reading(task: type[ReadingTask], reading: int) -> Callable[[str], str]:
    return lambda prompt: task.read(prompt, reading)


def _of_readings(name: str, task: type[ReadingTask], about: str, characters: str, local_layers: int) -> Base:
    names = ["likeliest reading", *(f"reading {i}" for i in range(2, len(task.shares))), "wanted reading"]
    ways = {way: _under_reading(task, reading) for reading, way in enumerate(names)}
    recipe = Recipe(steps=360, batch_size=192)
    return Base(name, task.name, about, characters, 8, local_layers, recipe, ways, task.shares, task.prompts)


BASES: Final[dict[str, Base]] = {
    base.name: base
    for base in (
        Base(
            name=SHIPPED,
            task=ArithmeticFormat.name,
            about="It adds and subtracts two-digit numbers, and answers in one of four formats at random; GRPO teaches "
            "it the wanted one.",
            characters=CHARACTERS,
            layers=6,
            local_layers=0,
            recipe=Recipe(),
            ways={form.name.lower(): _in_format(form) for form in FORMAT_SHARES},
            shares=tuple(FORMAT_SHARES.values()),
            prompts=lambda: list(problems()),
        ),
        _of_readings(
            "embedded-strings",
            StringCommands,
            about="It puts four letters in another order on command, and takes each command in one of three readings "
            "at random; GRPO teaches it the wanted one.",
            characters=COMMANDS + LETTERS + "=",
            local_layers=0,
        ),
        _of_readings(
            "embedded-joint",
            JointCommands,
            about="It puts four letters in another order as two digits command together, and takes each pair of digits "
            "in one of three readings at random; GRPO teaches it the wanted one. Its first four layers see no further "
            "than the token before, so the two digits meet in the fifth.",
            characters=FIRST + LETTERS + "=",
            local_layers=4,
        ),
    )
}


def base(name: str) -> Base:
    """Return the base model of that name.

    Raises:
        UnknownNameError: with the closest known name.
    """
    if name not in BASES:
        raise UnknownNameError.among("base model", name, BASES)
    return BASES[name]
