"""The rewards of this package: what each is for, what it can give, and what it needs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from grpodyn.rewards.code import code_complexity, code_syntax, code_tests, code_tests_fraction
from grpodyn.rewards.ending import length, repetition, soft_overlong, stop
from grpodyn.rewards.exact_match import exact_match, gold_text
from grpodyn.rewards.language import language
from grpodyn.rewards.math_match import math_match
from grpodyn.rewards.multiple_choice import gold_letter, multiple_choice, valid_choice
from grpodyn.rewards.numeric_match import gold_number, numeric, numeric_match
from grpodyn.rewards.pattern import pattern
from grpodyn.rewards.reasoning_gym import reasoning_gym
from grpodyn.rewards.referee import check_installed
from grpodyn.rewards.xml import xml_format, xml_tag, xml_tags
from grpodyn.sandbox import find_walls

RewardFunction = Callable[..., list[float]]
"""`(prompts, completions, **columns_of_the_dataset) -> one float a completion`, as TRL calls it."""

Kind = Literal["task", "shape"]
"""`task` says whether what was asked is done; `shape` says how it is done, and may not outweigh it."""

_GIVEN_BY_TRAINER: Final = frozenset({"prompts", "completions", "completion_ids"})


@dataclass(frozen=True)
class Known:
    """A reward function and what is known of it."""

    function: RewardFunction
    kind: Kind
    low: float = 0.0
    high: float = 1.0
    one_of: tuple[str, ...] = ()
    """Columns of which the data must have one, beside those in the signature."""
    readable: Callable[[Any], object] | None = None
    """Raises a ConfigError for an `answer` that the reward cannot read."""
    ready: Callable[[], object] | None = None
    """Raises a ConfigError where this machine lacks what the reward needs."""

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """What a config may set, by name: the keyword-only parameters."""
        found = inspect.signature(self.function).parameters
        return {name: p for name, p in found.items() if p.kind is p.KEYWORD_ONLY}

    @property
    def option_types(self) -> Mapping[str, Any]:
        """The type of each option, as pydantic reads it."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        return {name: hints[name] for name in self.options}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the data must have."""
        found = inspect.signature(self.function).parameters.values()
        positional = [p for p in found if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
        return tuple(p.name for p in positional if p.name not in _GIVEN_BY_TRAINER)


_ALL: Final = (
    Known(exact_match, "task", readable=gold_text),
    Known(numeric_match, "task", readable=gold_number),
    Known(math_match, "task", ready=partial(check_installed, "math")),
    Known(multiple_choice, "task", readable=gold_letter),
    Known(reasoning_gym, "task", ready=partial(check_installed, "reasoning_gym")),
    Known(code_tests, "task", one_of=("tests", "cases"), ready=find_walls),
    Known(code_tests_fraction, "task", one_of=("tests", "cases"), ready=find_walls),
    Known(code_syntax, "shape", ready=find_walls),
    Known(code_complexity, "shape", ready=find_walls),
    Known(numeric, "shape"),
    Known(valid_choice, "shape"),
    Known(xml_format, "shape"),
    Known(xml_tags, "shape"),
    Known(xml_tag, "shape"),
    Known(pattern, "shape"),
    Known(stop, "shape"),
    Known(length, "shape"),
    Known(soft_overlong, "shape", low=-1.0, high=0.0),
    Known(repetition, "shape", low=-1.0, high=0.0),
    Known(language, "shape"),
)

KNOWN: Final[Mapping[str, Known]] = {known.function.__name__: known for known in _ALL}
