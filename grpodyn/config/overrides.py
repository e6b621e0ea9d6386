"""`--set a.b=c`: single values of a config, given on the command line."""

from __future__ import annotations

import copy
from collections.abc import Iterable
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
        _assign(result, keys, yaml_text.parse(text, f"--set {setting!r}"), setting)
    return result


def _assign(config: dict[str, Any], keys: list[str], value: Any, setting: str) -> None:
    holder: Any = config
    for depth, key in enumerate(keys[:-1]):
        if isinstance(holder, dict) and holder.get(key) is None:
            holder[key] = {}
        holder = _child(holder, key, ".".join(keys[: depth + 1]), setting)
    last = keys[-1]
    if isinstance(holder, list):
        holder[_index(holder, last, ".".join(keys), setting)] = value
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        raise _no_keys(holder, ".".join(keys[:-1]), setting)


def _child(holder: Any, key: str, path: str, setting: str) -> Any:
    if isinstance(holder, list):
        return holder[_index(holder, key, path, setting)]
    if isinstance(holder, dict):
        return holder[key]
    raise _no_keys(holder, path.rpartition(".")[0], setting)


def _index(holder: list[Any], key: str, path: str, setting: str) -> int:
    if not key.isdecimal() or int(key) >= len(holder):
        raise ConfigError(f"--set {setting!r}: {path} is no entry of a list of {len(holder)}; expected an index from 0")
    return int(key)


def _no_keys(holder: Any, path: str, setting: str) -> ConfigError:
    return ConfigError(f"--set {setting!r}: {path} is {holder!r}, which has no keys; set {path} itself")
