"""Numbers among what trainers and loops log: plain ones, and those of numpy and torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any


def number(value: Any) -> float | None:
    """Return a scalar, or a tensor or array of one element, as a number; None for anything else.

    >>> number(3), number(True), number("3")
    (3.0, 1.0, None)
    """
    if isinstance(value, Real):
        return _float(value)
    if hasattr(value, "item") and _count(value) == 1:
        inner = value.item()
        return _float(inner) if isinstance(inner, Real) else None
    return None


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the numbers of a log under their own keys; what is None stays so, and anything else is left out.

    Raises:
        TypeError: it is no mapping.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"metrics are {type(values).__name__}, expected a mapping of names to numbers")
    found = {key: number(value) for key, value in values.items()}
    return {key: value for key, value in found.items() if value is not None or values[key] is None}


def _count(value: Any) -> int | None:
    if hasattr(value, "numel"):
        return int(value.numel())
    size = getattr(value, "size", None)
    return size if isinstance(size, int) else None
