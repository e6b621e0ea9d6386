"""Nested settings as dotted paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def leaves(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is no mapping, or an empty one, with its path.

    >>> dict(leaves({"grpo": {"beta": 0.0, "extra": {}}, "seed": 1}))
    {'grpo.beta': 0.0, 'grpo.extra': {}, 'seed': 1}
    """
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
