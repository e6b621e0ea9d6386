"""Where the adapter of each arm sits: pure functions of the model's linear modules and of what was measured.

All arms of one budget are of one size; what differs is where it is spent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from grpodyn.ablation.budget import even_ranks
from grpodyn.errors import UsageError
from grpodyn.lora.modules import LinearModule, layer_of

Ranks = dict[str, int]

_ATTENTION_PARTS = ("attn", "attention", "self_attn", "mixer")


def is_attention(module: LinearModule) -> bool:
    """Return whether a module belongs to attention, by the names of the modules that hold it.

    >>> [is_attention(LinearModule(f"model.layers.0.{name}", 1, 1)) for name in ("self_attn.q_proj", "mlp.up_proj")]
    [True, False]
    """
    holders = module.name.split(".")[:-1]
    return any(part in holder.lower() for holder in holders for part in _ATTENTION_PARTS)


def layers(modules: Sequence[LinearModule]) -> list[str]:
    """Return the names of the layers that hold the modules, in the model's order."""
    found = dict.fromkeys(layer_of(module.name) for module in modules)
    return [layer for layer in found if layer is not None]


def in_layers(modules: Sequence[LinearModule], wanted: Sequence[str]) -> list[LinearModule]:
    """Return the modules of some layers."""
    return [module for module in modules if layer_of(module.name) in set(wanted)]


def attention_only(modules: Sequence[LinearModule], budget: int) -> Ranks:
    """Return an adapter on the attention modules of all layers.

    Raises:
        UsageError: the model has none that can be told apart, or the budget cannot be met.
    """
    return even_ranks(_some(modules, is_attention, "attention"), budget)


def mlp_only(modules: Sequence[LinearModule], budget: int) -> Ranks:
    """Return an adapter on everything but attention, in all layers.

    Raises:
        UsageError: as `attention_only`.
    """
    return even_ranks(_some(modules, lambda module: not is_attention(module), "MLP"), budget)


def last_block(modules: Sequence[LinearModule], budget: int) -> Ranks:
    """Return an adapter on the last layer.

    Raises:
        UsageError: the budget cannot be met there.
    """
    return even_ranks(in_layers(modules, layers(modules)[-1:]), budget)


def top_layers(modules: Sequence[LinearModule], budget: int, scores: Mapping[str, float], count: int) -> Ranks:
    """Return an adapter on the `count` layers of the highest score.

    Raises:
        UsageError: fewer layers than that have a score, or the budget cannot be met.
    """
    known = [layer for layer in layers(modules) if scores.get(layer, 0.0) > 0]
    if len(known) < count:
        raise UsageError(f"{len(known)} layers have a score where {count} are to be chosen; record the run longer")
    best = sorted(known, key=lambda layer: -scores[layer])[:count]
    return even_ranks(in_layers(modules, best), budget)


def lowest_types(modules: Sequence[LinearModule], budget: int, scores: Mapping[str, float], count: int = 3) -> Ranks:
    """Return an adapter on the `count` module types of the lowest score, in all layers (PLoP, arXiv 2506.20629).

    Raises:
        UsageError: fewer types than that have a score, or the budget cannot be met.
    """
    types = sorted({module.leaf for module in modules} & scores.keys(), key=lambda leaf: (scores[leaf], leaf))
    if len(types) < count:
        raise UsageError(f"{len(types)} module types have a score where {count} are to be chosen")
    return even_ranks([module for module in modules if module.leaf in types[:count]], budget)


def random_like(modules: Sequence[LinearModule], advised: Mapping[str, int], seed: int) -> Ranks:
    """Return an adapter of the same shape as another one, somewhere drawn at random.

    An adapter on some of the layers moves as a whole to as many layers drawn at random; one on all layers goes, module
    by module, to a module drawn at random among those of the same cost. The draw may hit the advised placement itself,
    as a blind choice may.

    Args:
        modules: all linear modules.
        advised: rank by module name.
        seed: of the draw.

    Raises:
        UsageError: the layers of the model differ, so that no shape can be moved.
    """
    draw = random.Random(seed)  # noqa: S311 - an experiment's draw, not a secret
    by_layer: dict[str, dict[str, LinearModule]] = {layer: {} for layer in layers(modules)}
    for module in modules:
        layer = layer_of(module.name)
        if layer is not None:
            by_layer[layer][module.name.removeprefix(f"{layer}.")] = module
    used = [layer for layer in by_layer if any(name.startswith(f"{layer}.") for name in advised)]
    if len(used) < len(by_layer):
        targets = draw.sample(sorted(by_layer), len(used))
        moved: Ranks = {}
        for source, target in zip(used, targets, strict=True):
            for inside, module in by_layer[source].items():
                if module.name in advised:
                    twin = by_layer[target].get(inside)
                    if twin is None or twin.in_features != module.in_features:
                        raise UsageError(f"{target} has no module like {module.name}, so the adapter cannot be moved")
                    moved[twin.name] = advised[module.name]
        return moved
    return _shuffled(modules, advised, draw)


def _shuffled(modules: Sequence[LinearModule], advised: Mapping[str, int], draw: random.Random) -> Ranks:
    pools: dict[int, list[str]] = {}
    for module in modules:
        pools.setdefault(module.in_features + module.out_features, []).append(module.name)
    for pool in pools.values():
        draw.shuffle(pool)
    cost = {module.name: module.in_features + module.out_features for module in modules}
    return {pools[cost[name]].pop(): rank for name, rank in advised.items()}


def _some(modules: Sequence[LinearModule], belongs: Callable[[LinearModule], bool], what: str) -> list[LinearModule]:
    found = [module for module in modules if belongs(module)]
    if not found or len(found) == len(modules):
        raise UsageError(f"{len(found)} of {len(modules)} linear modules are {what} modules; there is no such arm here")
    return found
