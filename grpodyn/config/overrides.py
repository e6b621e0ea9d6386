"""`--set a.b=c`: single values of a config, given on the command line."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from grpodyn.config import yaml_text
from grpodyn.errors import ConfigError


def apply(config: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return a copy of `config` with each `key.path=value` set; values are YAML, parts of the path may be list indices.

    Whether the keys exist is not checked here: the model that validates the result does that.

    Raises:
        ConfigError: a setting has no `=`, an empty key, or walks through a value that has no keys.

    >>> apply({"grpo": {"max_steps": 10}}, ["grpo.max_steps=20", "lora={r: 8}", "grpo.learning_rate=1e-4"])
    {'grpo': {'max_steps': 20, 'learning_rate': 0.0001}, 'lora': {'r': 8}}
    """
    result = copy.deepcopy(config)
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(f"--set {setting!r}: expected key=value, such as --set grpo.learning_rate=1e-5")
        _assign(result, keys, yaml_text.parse(text, f"--set {setting!r}"), f"--set {setting!r}")
    return result


def assign(config: dict[str, Any], values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a copy of `config` with the value at each dotted key replaced, as `apply` does with texts.

    Args:
        config: the mapping to start from.
        values: dotted key → plain value.
        source: where the values come from, for the message.

    Raises:
        ConfigError: an empty key, or one that walks through a value that has no keys.

    >>> assign({"grpo": {"beta": 0.0}}, {"grpo.beta": 0.04, "seed": 3}, "the arm kl")
    {'grpo': {'beta': 0.04}, 'seed': 3}
    """
    result = copy.deepcopy(config)
    for path, value in values.items():
        keys = path.split(".")
        if not all(keys):
            raise ConfigError(f"{source}: {path!r} is no key, expected one such as grpo.learning_rate")
        _assign(result, keys, copy.deepcopy(value), source)
    return result


def _assign(config: dict[str, Any], keys: list[str], value: Any, source: str) -> None:
    holder: Any = config
    for depth, key in enumerate(keys[:-1]):
        if isinstance(holder, dict) and holder.get(key) is None:
            holder[key] = {}
        holder = _child(holder, key, ".".join(keys[: depth + 1]), source)
    last = keys[-1]
    if isinstance(holder, list):
        holder[_index(holder, last, ".".join(keys), source)] = value
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        raise _no_keys(holder, ".".join(keys[:-1]), source)


def _child(holder: Any, key: str, path: str, source: str) -> Any:
    if isinstance(holder, list):
        return holder[_index(holder, key, path, source)]
    if isinstance(holder, dict):
        return holder[key]
    raise _no_keys(holder, path.rpartition(".")[0], source)


def _index(holder: list[Any], key: str, path: str, source: str) -> int:
    if not key.isdecimal() or int(key) >= len(holder):
        raise ConfigError(f"{source}: {path} is no entry of a list of {len(holder)}; expected an index from 0")
    return int(key)


def _no_keys(holder: Any, path: str, source: str) -> ConfigError:
    return ConfigError(f"{source}: {path} is {holder!r}, which has no keys; set {path} itself")
