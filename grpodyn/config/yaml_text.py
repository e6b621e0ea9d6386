"""YAML in and out: safe loading without two of YAML 1.1's traps, and dumping in the order given.

The traps: `3e-4` is a string in YAML 1.1 (only `3.0e-4` is a number), and a key written twice silently keeps the last.
Both have cost people a training run, so here the first is a number and the second an error.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from grpodyn.errors import ConfigError

_FLOAT = re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$|^[-+]?\.\d[\d_]*[eE][-+]?\d+$")

MOST_VALUES = 100_000
"""Of one document, anchors written out."""


class _Loader(yaml.SafeLoader):
    """`yaml.SafeLoader` that reads `3e-4` as a float and refuses repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is written twice, again in line {line}"
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def parse(text: str, source: str) -> Any:
    """Return the value that YAML text holds.

    Args:
        text: YAML.
        source: where it comes from, for the message (`configs/a.yaml`, `--set`).

    Raises:
        ConfigError: it is not YAML, repeats a key, or grows beyond all measure through its anchors.

    >>> parse("learning_rate: 3e-4", "example")
    {'learning_rate': 0.0003}
    """
    try:
        # _Loader derives from SafeLoader: no Python objects are built.
        return _unshared(yaml.load(text, Loader=_Loader))  # noqa: S506
    # Beside its own errors the loader lets through what Python says of a value (`2001-99-99` is no date).
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source} is not readable YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{source} is nested too deeply, or holds an anchor inside itself") from error


def read(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Raises:
        ConfigError: there is no such file, it is not text, not YAML, or no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no config file {path}; give the path of a YAML file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}") from error
    value = parse(text, str(path))
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds {_kind(value)}, expected a mapping with keys such as `model` and `task`")
    return value


def dump(value: Any) -> str:
    """Return a value as block YAML, keys in the order given.

    >>> dump({"seed": 0, "lora": None})
    'seed: 0\\nlora: null\\n'
    """
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False)


def _unshared(value: Any) -> Any:
    """Return a value whose parts are each there once: what an anchor names twice may be changed in one place alone."""
    left = MOST_VALUES

    def copied(part: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"its anchors stand for more than {MOST_VALUES:,} values")
        if isinstance(part, dict):
            return {key: copied(item) for key, item in part.items()}
        return [copied(item) for item in part] if isinstance(part, list) else part

    return copied(value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
