"""Finds a reward function by name, or imports the user's own from `module:function`, and gives it its options."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from grpodyn.errors import ConfigError, UnknownNameError, did_you_mean
from grpodyn.rewards.known import KNOWN, Known, RewardFunction


@dataclass(frozen=True)
class RewardContext:
    """What a run knows that a reward may need; options of a reward that the config does not set are filled from it."""

    FILLS: ClassVar = ("end_tokens", "max_length")

    end_tokens: tuple[int, ...] | None = None
    """Tokens that end a completion; None before the tokenizer is loaded."""
    max_length: int | None = None
    """Tokens after which a completion is cut off."""

    def options(self) -> dict[str, Any]:
        """Return options by name."""
        return {name: getattr(self, name) for name in self.FILLS if getattr(self, name) is not None}


def reward_names() -> list[str]:
    """Return the names that `reward` knows."""
    return sorted(KNOWN)


def reward(
    name: str,
    options: Mapping[str, Any] | None = None,
    context: RewardContext | None = None,
    label: str | None = None,
) -> RewardFunction:
    """Return the reward function called `name`, or the one that a string like `my_rewards:brevity` points at.

    Args:
        name: of a reward of this package, or `module:function`.
        options: values of its keyword-only parameters.
        context: what the run knows; fills options that `options` leaves out.
        label: the name under which it is recorded; by default the function's own.

    Raises:
        UnknownNameError: no reward has that name.
        ConfigError: the module cannot be imported or holds no such function; an option is unknown, or its value wrong.
    """
    given = dict(options or {})
    if ":" in name:
        function = _imported(name)
    elif name in KNOWN:
        known = KNOWN[name]
        function = known.function
        _check(name, known, given)
        filled = context.options() if context is not None else {}
        given = {option: value for option, value in filled.items() if option in known.options} | given
        missing = [o for o, p in known.options.items() if p.default is p.empty and o not in given]
        unfilled = [option for option in missing if context is not None or option not in RewardContext.FILLS]
        if unfilled:
            raise ConfigError(f"the reward {name} needs the option {unfilled[0]}; write options: {{{unfilled[0]}: …}}")
    else:
        raise UnknownNameError.among("reward", name, [*KNOWN, "module:function"])
    if not given and label is None:
        return function
    kind = _AwaitedBound if inspect.iscoroutinefunction(function) else _Bound
    return kind(function, given, label or str(getattr(function, "__name__", name)))


class _Bound:
    """A reward with its options. TRL names a `functools.partial` by what is inside, whatever it is called itself."""

    def __init__(self, function: RewardFunction, options: Mapping[str, Any], name: str) -> None:
        self.func, self.options, self.__name__ = function, dict(options), name

    def __call__(self, *args: Any, **columns: Any) -> Any:
        return self.func(*args, **columns | self.options)


class _AwaitedBound(_Bound):
    """The same of a function that is awaited."""

    async def __call__(self, *args: Any, **columns: Any) -> Any:
        return await cast(Any, self.func)(*args, **columns | self.options)


def _check(name: str, known: Known, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        if option not in known.options:
            names = list(known.options)
            hint = did_you_mean(option, names) or f" (known: {', '.join(names) or 'none'})"
            raise ConfigError(f"the reward {name} has no option {option!r}{hint}")
        adapter: TypeAdapter[Any] = TypeAdapter(
            known.option_types[option], config=ConfigDict(strict=True, allow_inf_nan=False)
        )
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            expected = error.errors(include_url=False)[0]["msg"]
            raise ConfigError(
                f"the reward {name} has {option} {value!r}: {expected[0].lower()}{expected[1:]}"
            ) from error


def _imported(path: str) -> RewardFunction:
    module_name, _, attribute = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script starts without it; last, so that it hides nothing
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"the reward {path!r} cannot be imported: {error}. Write `module:function`, with the module on PYTHONPATH "
            "or in the folder you start from."
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        held = "nothing" if function is None else f"a {type(function).__name__}"
        raise ConfigError(
            f"the reward {path!r} is no function: {module_name} holds {held} under {attribute!r}. "
            "A reward takes (prompts, completions, **columns) and returns one float a completion."
        )
    return cast(RewardFunction, function)
