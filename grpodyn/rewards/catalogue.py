"""Finds a reward function by name, or imports the user's own from `module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.rewards.code import code_complexity, code_syntax, code_tests, code_tests_fraction
from grpodyn.rewards.exact_match import exact_match

RewardFunction = Callable[..., list[float]]
"""`(prompts, completions, **columns_of_the_dataset) -> one float a completion`, as TRL calls it."""

_REWARDS: dict[str, RewardFunction] = {
    function.__name__: function
    for function in (exact_match, code_syntax, code_tests, code_tests_fraction, code_complexity)
}


def reward_names() -> list[str]:
    """Return the names that `reward` knows."""
    return sorted(_REWARDS)


def reward(name: str) -> RewardFunction:
    """Return the reward function called `name`, or the one that a string like `my_rewards:brevity` points at.

    Raises:
        UnknownNameError: no reward has that name.
        ConfigError: the module cannot be imported, or holds no such function.
    """
    if ":" in name:
        return _imported(name)
    if name not in _REWARDS:
        raise UnknownNameError.among("reward", name, [*_REWARDS, "module:function"])
    return _REWARDS[name]


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
