"""Parts of a model that tile what a run has changed; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from grpodyn.trace.schema import TensorInfo

Kind = Literal["layer", "layers", "module", "embedding", "norm", "head", "rest"]

_SPECIAL: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    ("embedding", "embeddings", ("embedding",)),
    ("head", "head", ("head",)),
    ("norm", "norms", ("norm",)),
)
"""Parts that an adapter on linear modules does not reach, by the kinds of tensor in them; all others are the rest."""


@dataclass(frozen=True)
class Part:
    """Some of the changed tensors, that keep or lose their change together."""

    name: str
    kind: Kind
    tensors: frozenset[str]
    layers: tuple[int, ...] = ()
    """Indices of the layers in it, of a part that is one or more layers."""
    stack: str = ""
    """The list of layers that they are in."""
    is_target: bool = True
    """Whether LoRA on linear modules reaches it."""


def target(info: TensorInfo) -> bool:
    """Return whether an adapter on linear modules of the layers reaches this tensor."""
    return info.kind == "linear" and info.layer >= 0


def beyond_adapters(infos: Iterable[TensorInfo]) -> list[Part]:
    """Return the parts that LoRA on linear modules does not reach: embeddings, head, norms, and whatever is left."""
    left = [info for info in infos if not target(info)]
    found = []
    for kind, name, kinds in _SPECIAL:
        members = frozenset(info.name for info in left if info.kind in kinds)
        if members:
            found.append(Part(name, kind, members, is_target=False))
    known = {name for part in found for name in part.tensors}
    rest = frozenset(info.name for info in left) - known
    if rest:
        found.append(Part("rest", "rest", rest, is_target=False))
    return found


def module_types(infos: Iterable[TensorInfo]) -> list[Part]:
    """Return one part per type of linear module, over all layers."""
    return [Part(name, "module", members) for name, members in _grouped(infos, lambda info: info.module)]


def layer_places(infos: Iterable[TensorInfo]) -> list[tuple[str, int]]:
    """Return (stack, index) of every layer with a changed linear weight, in order."""
    return sorted({(info.stack, info.layer) for info in infos if target(info)})


def block(infos: Iterable[TensorInfo], places: Sequence[tuple[str, int]]) -> Part:
    """Return the linear weights of some adjacent layers as one part.

    Of a model with more than one list of layers, such as an encoder and a decoder, the name says in which they are.
    """
    infos = list(infos)
    inside = set(places)
    members = frozenset(info.name for info in infos if target(info) and (info.stack, info.layer) in inside)
    stack, first = places[0]
    last = places[-1][1]
    one = len(places) == 1
    name = f"layer {first}" if one else f"layers {first}-{last}"
    if len({info.stack for info in infos if target(info)}) > 1:
        name += f" of {stack}"
    indices = tuple(index for _, index in places)
    return Part(name, "layer" if one else "layers", members, indices, stack)


def check_tiling(parts: Sequence[Part], names: Iterable[str]) -> None:
    """Check that every changed tensor is in exactly one part.

    Raises:
        ValueError: a tensor is in none or in two: sums over the parts would be no sums over the change.
    """
    counted: dict[str, int] = {}
    for part in parts:
        for name in part.tensors:
            counted[name] = counted.get(name, 0) + 1
    wanted = set(names)
    wrong = sorted(name for name in wanted | counted.keys() if counted.get(name, 0) != (1 if name in wanted else 0))
    if wrong:
        raise ValueError(
            f"the parts {[part.name for part in parts]} do not tile what has changed: {wrong[0]} is in "
            f"{counted.get(wrong[0], 0)} of them, expected {int(wrong[0] in wanted)}"
        )


def _grouped(infos: Iterable[TensorInfo], label: Callable[[TensorInfo], str]) -> list[tuple[str, frozenset[str]]]:
    groups: dict[str, set[str]] = {}
    for info in infos:
        if target(info):
            groups.setdefault(label(info), set()).add(info.name)
    return [(name, frozenset(members)) for name, members in groups.items()]
