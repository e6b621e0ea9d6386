"""Reads a Python or JSON literal that somebody printed: dicts, lists, strings, numbers, nan. Nothing is evaluated."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<name>[-+]?[A-Za-z_][\w.]*)
      | (?P<mark>[{}\[\]():,=])
    )""",
    re.VERBOSE,
)
_NAMES = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
    "none": None,
    "null": None,
    "true": True,
    "false": False,
}
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_DEEPEST = 40


def parse(text: str) -> Any:
    """Return the literal that a text is.

    JSON as Python writes it (bare NaN, Infinity), Python's own repr (single quotes, None, tuples), and numbers inside a
    call (`np.float64(0.5)`, `tensor(0.5, device='cuda:0')`), which stand for themselves.

    Raises:
        ValueError: the text is no literal, or is nested too deeply.

    >>> parse("{'loss': 0.0, 'kl': nan, 'lr': np.float64(1e-06), 'ok': True}")
    {'loss': 0.0, 'kl': nan, 'lr': 1e-06, 'ok': True}
    """
    value, end = parse_at(text, 0)
    if text[end:].strip():
        raise ValueError(f"{text[end : end + 20]!r} stands after the value")
    return value


def parse_at(text: str, start: int) -> tuple[Any, int]:
    """Return the literal that begins at `start`, and where it ends.

    Raises:
        ValueError: no literal begins there.
    """
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return _Reader(text).value(start, 0)
    return value, end


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        kind, token, end = self._next(at)
        if kind == "number":
            return _number(token), end
        if kind == "string":
            return _string(token), end
        if kind == "name":
            return self._named(token, end, depth)
        if token in _CLOSING and depth < _DEEPEST:
            return self._collection(token, end, depth)
        raise ValueError(f"no value begins with {token!r}")

    def _named(self, name: str, at: int, depth: int) -> tuple[Any, int]:
        if name.lower() in _NAMES:
            return _NAMES[name.lower()], at
        if self._text[at : at + 1] != "(" or depth >= _DEEPEST:
            raise ValueError(f"{name!r} is no literal")
        value, end = self.value(at + 1, depth + 1)
        if not isinstance(value, int | float):
            raise ValueError(f"{name}(…) does not stand for a number")
        # What follows the value is about it: `dtype=float32`, `device='cuda:0'`.
        while True:
            _, mark, end = self._next(end)
            if mark == ")":
                return value, end
            if mark in _CLOSING:
                _, end = self._collection(mark, end, depth + 1)

    def _collection(self, opening: str, at: int, depth: int) -> tuple[Any, int]:
        closing, mapping = _CLOSING[opening], opening == "{"
        items: list[Any] = []
        found: dict[Any, Any] = {}
        while True:
            _, mark, end = self._next(at)
            if mark == closing:
                return (found if mapping else items), end
            value, at = self.value(at, depth + 1)
            if mapping:
                at = self._expect(":", at)
                found[str(value)], at = self.value(at, depth + 1)
            else:
                items.append(value)
            _, mark, end = self._next(at)
            if mark == ",":
                at = end
            elif mark != closing:
                raise ValueError(f"expected ',' or {closing!r}, found {mark!r}")

    def _expect(self, wanted: str, at: int) -> int:
        _, mark, end = self._next(at)
        if mark != wanted:
            raise ValueError(f"expected {wanted!r}, found {mark!r}")
        return end

    def _next(self, at: int) -> tuple[str, str, int]:
        match = _TOKEN.match(self._text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"{self._text[at : at + 20]!r} is no literal")
        return match.lastgroup, match.group(match.lastgroup), match.end()


def _number(token: str) -> float:
    plain = token.replace("_", "")
    return int(plain) if plain.lstrip("+-").isdecimal() and len(plain) < 300 else float(plain)


def _string(token: str) -> str:
    # Only what JSON escapes too is unescaped; a log's text is shown, never interpreted.
    body = token[1:-1].replace("\\'", "'")
    try:
        return str(json.loads('"' + re.sub(r'(?<!\\)"', r"\"", body) + '"'))
    except ValueError:
        return body
