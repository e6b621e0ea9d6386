"""A small world in words: short stories that a model of a million parameters can learn, made from a fixed seed.

They stand for the text that a real base model was trained on. They have what text has (agreement, names that come back,
numbers in words that have to fit) and nothing that a licence covers. No torch.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Final

from grpodyn.tasks.splits import split_of

CHARACTERS: Final = " abcdefghijklmnopqrstuvwxyz.,?"
"""All that stories are written in."""

COUNT: Final = 6000
SEED: Final = 0
LONGEST: Final = 60
"""Characters; the embedded models see 64 tokens."""

_NAMES: Final = {"mara": "she", "tom": "he", "anna": "she", "ben": "he", "lea": "she", "karl": "he"}
_THINGS: Final = ("cups", "keys", "hats", "books", "apples", "stones", "lamps", "boats")
_COLOURS: Final = ("red", "blue", "green", "old", "small", "white")
_PLACES: Final = ("garden", "kitchen", "forest", "harbour", "school", "market")
_ANIMALS: Final = ("cat", "dog", "fox", "owl", "horse", "goat")
_SEEN: Final = {"sleeps": "asleep", "eats": "hungry", "runs": "in a hurry", "waits": "patient", "hides": "shy"}
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six")


def _gives(draw: random.Random) -> str:
    giver, taker = draw.sample(list(_NAMES), 2)
    had = draw.randrange(2, len(_NUMBERS))
    given = draw.randrange(1, had)
    return (
        f"{giver} has {_NUMBERS[had]} {draw.choice(_THINGS)}. {_NAMES[giver]} gives {taker} {_NUMBERS[given]} and "
        f"keeps {_NUMBERS[had - given]}."
    )


def _asks(draw: random.Random) -> str:
    animal, place = draw.choice(_ANIMALS), draw.choice(_PLACES)
    return f"the {animal} is in the {place}. where is it? in the {place}."


def _acts(draw: random.Random) -> str:
    animal, verb = draw.choice(_ANIMALS), draw.choice(list(_SEEN))
    return f"the {draw.choice(_COLOURS)} {animal} {verb}. it is {_SEEN[verb]}."


def _meets(draw: random.Random) -> str:
    one, other = draw.sample(list(_NAMES), 2)
    return f"{one} meets {other} in the {draw.choice(_PLACES)}, and {_NAMES[one]} greets {other}."


def _finds(draw: random.Random) -> str:
    name, colour, thing = draw.choice(list(_NAMES)), draw.choice(_COLOURS), draw.choice(_THINGS)
    return f"{name} looks for {colour} {thing}. {_NAMES[name]} finds {thing}, {colour} ones."


_KINDS: Final = (_gives, _asks, _acts, _meets, _finds)


@cache
def stories(split: str) -> tuple[str, ...]:
    """Return the stories of one split, all different; which split a story belongs to is decided by its text alone.

    >>> stories("report")[2]
    'tom has three hats. he gives lea one and keeps two.'
    """
    draw = random.Random(SEED)  # noqa: S311  # no secret
    made = dict.fromkeys(draw.choice(_KINDS)(draw) for _ in range(COUNT))
    return tuple(story for story in made if split_of(story) == split and len(story) <= LONGEST)
