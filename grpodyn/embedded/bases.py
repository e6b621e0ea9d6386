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

from grpodyn.embedded import SHIPPED, stories
from grpodyn.embedded.pretraining import Mixture, Prose, Recipe
from grpodyn.embedded.tokenizer import CHARACTERS
from grpodyn.errors import UnknownNameError
from grpodyn.tasks.arithmetic_format import AnswerFormat, ArithmeticFormat, problems
from grpodyn.tasks.arithmetic_stages import STAGE_NAMES, ArithmeticCurriculum, all_solved, solved
from grpodyn.tasks.joint_commands import FIRST, JointCommands
from grpodyn.tasks.letter_shifts import LetterShifts
from grpodyn.tasks.readings import ReadingTask
from grpodyn.tasks.string_commands import COMMANDS, LETTERS, StringCommands
from grpodyn.tasks.sum_commands import DIGITS, SumCommands

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
    prose: Callable[[], Prose] | None = None
    """Text that it is taught too; None for the task alone."""
    start: str | None = None
    """Base model of the same shape that it goes on from; what it does not know yet starts at random. None for
    nothing."""

    def mixture(self) -> Mixture:
        """Return what the base is taught."""
        prose = None if self.prose is None else self.prose()
        return Mixture.of(self.prompts(), list(self.ways.values()), self.shares, prose)

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
            **({} if mixture.prose is None else {"prose": asdict(mixture.prose)}),
            **({} if self.start is None else {"start": [self.start, base(self.start).digest()]}),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _in_format(form: AnswerFormat) -> Callable[[str], str]:
    return lambda prompt: form.write(problems()[prompt])


def _under_reading(task: type[ReadingTask], reading: int) -> Callable[[str], str]:
    return lambda prompt: task.read(prompt, reading)


def _of_readings(
    name: str, task: type[ReadingTask], about: str, characters: str, local_layers: int, steps: int = 360
) -> Base:
    names = ["likeliest reading", *(f"reading {i}" for i in range(2, len(task.shares))), "wanted reading"]
    ways = {way: _under_reading(task, reading) for reading, way in enumerate(names)}
    recipe = Recipe(steps=steps, batch_size=192)
    return Base(name, task.name, about, characters, 8, local_layers, recipe, ways, task.shares, task.prompts)


CURRICULUM_SLIPS: Final = 0.6
"""How often a base of the curriculum makes the slip of the kind: greedily always, and groups of eight find both."""

_PROMPTS_A_STAGE: Final = 6000


def _curriculum_prompts() -> list[str]:
    """Return the prompts of all stages, those of small stages as often as it takes to be met like the others."""
    found: list[str] = []
    for stage in STAGE_NAMES:
        prompts = list(solved(stage))
        found += prompts * max(1, round(_PROMPTS_A_STAGE / len(prompts)))
    return found


def _of_curriculum(name: str, layers: int) -> Base:
    return Base(
        name=name,
        task=ArithmeticCurriculum.name,
        about="It does five kinds of arithmetic, each rightly or with the slip of its kind, at random, and has read "
        "short stories too; GRPO teaches it not to slip, and may cost it the stories.",
        characters="0123456789+-*%=." + "".join(sorted(set(stories.CHARACTERS) - {"."})),
        layers=layers,
        local_layers=0,
        recipe=Recipe(steps=400, batch_size=192),
        ways={
            "slip": lambda prompt: all_solved()[prompt].slip,
            "right": lambda prompt: all_solved()[prompt].answer,
        },
        shares=(CURRICULUM_SLIPS, 1 - CURRICULUM_SLIPS),
        prompts=_curriculum_prompts,
        prose=lambda: Prose(stories.stories("train"), texts_a_step=12, run_on_a_step=0, run_on_tokens=0),
    )


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
        Base(
            name="embedded-text",
            task=ArithmeticFormat.name,
            about="It adds and subtracts like the shipped one, has read short stories too, and goes on with one after "
            "every third answer; GRPO teaches it the wanted format, and may cost it the stories.",
            characters=CHARACTERS + "".join(sorted(set(stories.CHARACTERS) - set(CHARACTERS))),
            layers=6,
            local_layers=0,
            recipe=Recipe(steps=200, batch_size=128, learning_rate=1e-3),
            ways={form.name.lower(): _in_format(form) for form in FORMAT_SHARES},
            shares=tuple(FORMAT_SHARES.values()),
            prompts=lambda: list(problems()),
            prose=lambda: Prose(stories.stories("train"), texts_a_step=24, run_on_a_step=64, run_on_tokens=16),
            start=SHIPPED,
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
        _of_readings(
            "embedded-shifts",
            LetterShifts,
            about="It moves four letters on in the alphabet on command, and takes each command in one of three "
            "readings at random; GRPO teaches it the wanted one.",
            characters=COMMANDS + LETTERS + "=",
            local_layers=0,
        ),
        _of_readings(
            "embedded-sums",
            SumCommands,
            about="It adds two digits, puts four letters in another order as their sum commands, and takes each sum in "
            "one of three readings at random; GRPO teaches it the wanted one.",
            characters=DIGITS + LETTERS + "=",
            local_layers=0,
            steps=600,  # adding takes longer to learn than looking a command up
        ),
        _of_curriculum("embedded-curriculum-small", 3),
        _of_curriculum("embedded-curriculum", 6),
        _of_curriculum("embedded-curriculum-large", 9),
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
