"""Which adapter to advise on a patch test (rung 2): what holds nothing gives way first, one part at a time.

The patch test says where the finished run's change is stored. That the next run should train there is a hypothesis, so
without a budget the advice leaves parts out only where that saves something worth having.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grpodyn.lora.modules import QUERY_AND_KEY, LinearModule, layer_of
from grpodyn.lora.policy import (
    DEFAULT_RANK,
    LAST_RANK,
    REDUCED_RANK,
    Candidate,
    Choice,
    Options,
    choice_of,
    first_that_fits,
    fits,
    on_ladder,
)
from grpodyn.lora.stored import Held, Stored

_LARGEST_RANK = 64


@dataclass(frozen=True)
class _Step:
    """One part that gives way without loss."""

    what: str
    modules: frozenset[str]


def choose(linear: Sequence[LinearModule], options: Options, stored: Stored, dropout: float = 0.0) -> Choice:
    """Return the first adapter on the patch test's path that fits the budget.

    Raises:
        UsageError: nothing on the path fits; states the smallest that is possible.
    """
    path = [candidate for candidate in _path(linear, options, stored) if _is_sensible(candidate)]
    fitting = first_that_fits(path, linear, options)
    return choice_of(fitting, linear, options, dropout)


def named_only(linear: Sequence[LinearModule], options: Options, stored: Stored, dropout: float = 0.0) -> Choice | None:
    """Return an adapter on nothing but the parts that the verdict names, at the highest rank that fits the budget.

    None where the verdict names no part within reach, or where none fits.
    """
    inside = stored.named(linear)
    if stored.word != "localised" or stored.out_of_reach or not inside or len(inside) == len(linear):
        return None
    tried = [Candidate(rank, tuple(inside), lower) for rank, lower in _falling(ranks(options, stored))]
    fitting = (candidate for candidate in tried if _is_sensible(candidate) and fits(candidate, linear, options))
    candidate = next(fitting, None)
    return None if candidate is None else choice_of(candidate, linear, options, dropout)


def _is_sensible(candidate: Candidate) -> bool:
    """Return whether an adapter is more than query and key, the worst placement in the studies that had them."""
    return any(module.leaf not in QUERY_AND_KEY for module in candidate.modules)


def ranks(options: Options, stored: Stored) -> list[int]:
    """Return the ranks of the path, the preferred first: 16, or more where truncation needs more, and lower ones.

    A budget goes below what truncation needs before it leaves parts out: a finished change that cannot be cut to rank 4
    does not say that training at rank 4 fails (docs/results/lora-advice-fresh.md, `letter_shifts`).
    """
    if options.rank is not None:
        return [options.rank]
    needed = min(stored.rank_floor or LAST_RANK, _LARGEST_RANK)
    if options.rank_ladder:
        return on_ladder(options.rank_ladder, needed)
    first = max(DEFAULT_RANK, needed)
    return [first, *(rank for rank in (DEFAULT_RANK, REDUCED_RANK, LAST_RANK) if rank < first)]


def _path(linear: Sequence[LinearModule], options: Options, stored: Stored) -> Iterator[Candidate]:
    """Adapters in the order in which a shrinking budget reaches them: a lower rank before a smaller place.

    On five study tasks the advised place at a high rank does better than all linear modules at a low one by .016 of
    accuracy at most, and worse by up to .076 (docs/results/lora-advice-fresh.md). A fraction of all-linear at the same
    rank cannot be met that way: at every rank, a place has the same.
    """
    tried = ranks(options, stored)
    for modules, gone in _places(linear, stored):
        for rank, lower in _falling(tried):
            yield Candidate(rank, modules, (*lower, *gone))


def _falling(tried: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
    """Return each rank with what is to be said of having come down to it."""
    return [(rank, () if rank == tried[0] else (f"rank {tried[0]} → {rank}",)) for rank in tried]


def _places(
    linear: Sequence[LinearModule], stored: Stored
) -> Iterator[tuple[tuple[LinearModule, ...], tuple[str, ...]]]:
    """Less and less of the model, and what was left out of it."""
    left, gone = list(linear), list[str]()
    yield tuple(left), ()
    for step in _free_steps(linear, stored):
        left = [module for module in left if module.name not in step.modules]
        gone.append(f"{step.what} left out")
        yield tuple(left), tuple(gone)
    order = sorted(left, key=lambda module: _density(module, stored))
    for count, module in enumerate(order[:-1], 1):
        left.remove(module)
        yield tuple(left), (*gone, f"{count} modules that hold least for their size left out")


def _free_steps(linear: Sequence[LinearModule], stored: Stored) -> list[_Step]:
    """Return the layers and module types without which nothing may be lost, in order: what holds least goes first.

    The layer and the type that hold most never go as a whole.
    """
    # Of a partition that was not tested nothing is known to be free.
    by_layer = _ordered(linear, stored.layers, stored.rest, lambda m: layer_of(m.name) or "") if stored.layers else []
    by_type = _ordered(linear, stored.types, stored.rest, lambda m: m.leaf) if stored.types else []
    return [*by_type, *by_layer] if stored.by_types else [*by_layer, *by_type]


def _ordered(
    linear: Sequence[LinearModule], held: Mapping[str, Held], rest: Held, label: Callable[[LinearModule], str]
) -> list[_Step]:
    # A part that the run did not change holds nothing; a patch test takes stacked experts as part of the rest.
    stacks = {label(module) for module in linear if module.experts}
    unknown = {name: rest if name in stacks else Held(0.0, True) for name in (label(module) for module in linear)}
    known = {name: held.get(name, nothing) for name, nothing in unknown.items()}
    ascending = sorted(known, key=lambda name: known[name].share)
    return [
        _Step(shown(name), frozenset(m.name for m in linear if label(m) == name))
        for name in ascending[:-1]
        if known[name].gives_way
    ]


def _density(module: LinearModule, stored: Stored) -> float:
    """Return share of its layer × share of its type, for each parameter that an adapter takes there.

    As if layers and types told nothing about each other, which was not measured. A partition that was not tested does
    not count.
    """
    layer, kind = stored.held(module)
    by_layer = max(0.0, layer) if stored.layers else 1.0
    by_type = max(0.0, kind) if stored.types else 1.0
    return by_layer * by_type / (module.in_features + module.out_features)


def shown(part: str) -> str:
    """Return how a layer's or a type's name is said.

    >>> shown("model.layers.3"), shown("up_proj")
    ('layer 3', 'up_proj')
    """
    last = part.rsplit(".", 1)[-1]
    return f"layer {last}" if last.isdigit() else part


def where(modules: Sequence[LinearModule], linear: Sequence[LinearModule]) -> str:
    """Return in words where an adapter sits.

    >>> model = [LinearModule(f"m.layers.{i}.{leaf}", 1, 1) for i in range(3) for leaf in ("q_proj", "up_proj")]
    >>> where(model, model), where(model[2:], model), where(model[3:], model)
    ('all layers', 'layers 1, 2', 'layer 2; up_proj of layer 1')
    """
    full = _types_by_layer(linear)
    here = _types_by_layer(modules)
    everywhere = {leaf for leaf in dict.fromkeys(m.leaf for m in linear) if any(leaf in t for t in here.values())}
    whole = [layer for layer, leaves in here.items() if leaves == [leaf for leaf in full[layer] if leaf in everywhere]]
    said = []
    if len(whole) == len(full):
        said.append("all layers")
    elif whole:
        numbers = ", ".join(layer.rsplit(".", 1)[-1] for layer in whole)
        said.append(f"layer{'s' * (len(whole) > 1)} {numbers}")
    said += [f"{', '.join(leaves)} of {shown(layer)}" for layer, leaves in here.items() if layer not in whole]
    missing = [leaf for leaf in dict.fromkeys(m.leaf for m in linear) if leaf not in everywhere]
    return "; ".join(said) + (f"; without {', '.join(missing)}" if missing else "")


def _types_by_layer(modules: Sequence[LinearModule]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module in modules:
        found.setdefault(layer_of(module.name) or "", []).append(module.leaf)
    return found
