"""The parts that an adapter can be put on alone, and how what is measured of single tensors adds up to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from grpodyn.ablation.protocol import LAYER_PREFIX, TYPE_PREFIX

Family = Literal["layers", "modules"]
FAMILIES: Final[tuple[Family, ...]] = ("layers", "modules")
Scores = Mapping[str, float]
"""Part → score; the highest is advised. Parts are `layer 3` and `q_proj`."""

_LAYER_PART = re.compile(r"layer (\d+)")


def layer(index: int | str) -> str:
    """Return the name of a layer as a part."""
    return f"layer {index}"


def family(part: str) -> Family:
    """Return which family a part belongs to.

    >>> family("layer 3"), family("q_proj")
    ('layers', 'modules')
    """
    return "layers" if _LAYER_PART.fullmatch(part) else "modules"


def of_arm(arm: str) -> str | None:
    """Return the part that an arm of an ablation trains alone, None for other arms.

    >>> of_arm("layer:3"), of_arm("type:q_proj"), of_arm("all-linear")
    ('layer 3', 'q_proj', None)
    """
    if arm.startswith(LAYER_PREFIX):
        return layer(arm.removeprefix(LAYER_PREFIX))
    return arm.removeprefix(TYPE_PREFIX) if arm.startswith(TYPE_PREFIX) else None
