"""Text and figures out of a run, as a terminal may show them: they are data, neither markup nor a control sequence."""

from __future__ import annotations

import math
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

# Control, format (which turn the direction of writing) and surrogate characters.
_ACTS = frozenset({"Cc", "Cf", "Cs"})
_HARMLESS = "\n\t\u200d"


def visible(value: object) -> str:
    """Return text in which every character that a terminal would act on stands as its escape.

    >>> visible("a\\x1b[31mb"), visible("grün [red]"), visible("a\\u202eb")
    ('a\\\\x1b[31mb', 'grün [red]', 'a\\\\u202eb')
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _ACTS and character not in _HARMLESS
        else character
        for character in str(value)
    )


def literal(value: object) -> Text:
    """Return `visible` text that rich does not read as markup."""
    from rich.text import Text

    return Text(visible(value))


def figure(value: float, form: str = ".3f") -> str:
    """Return a number as tables show it; undefined is a dash.

    >>> figure(0.5), figure(float("nan")), figure(float("inf"), ".1f")
    ('0.500', '–', '∞')
    """
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else format(value, form)
