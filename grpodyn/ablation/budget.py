"""Whole ranks that meet a parameter budget: evenly over some modules, or in proportion to a weight of each.

Arms that differ in size as well as in placement compare nothing, so an arm that misses its budget by more than 5 % is
an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grpodyn.errors import UsageError
from grpodyn.lora.modules import LinearModule, Method, layer_of

TOLERANCE = 0.05
"""How far an arm's size may lie from the budget, as a fraction of it."""


def parameters(modules: Iterable[LinearModule], ranks: Mapping[str, int], method: Method = "lora") -> int:
    """Return the trainable parameters of an adapter; modules without a rank (or with rank 0) have none."""
    return sum(m.adapter_parameters(ranks[m.name], method) for m in modules if ranks.get(m.name, 0))


def even_ranks(modules: Sequence[LinearModule], budget: int, method: Method = "lora") -> dict[str, int]:
    """Return ranks as equal as whole numbers allow that together come within 5 % of a budget.

    Every module gets the largest rank that fits. What is left gives one more rank to evenly spaced layers, then to
    evenly spaced modules, then to whatever module still fits. Below rank 1 the layers are thus thinned evenly.

    Args:
        modules: where the adapter may sit, in the model's order.
        budget: trainable parameters.
        method: kind of adapter.

    Raises:
        UsageError: whole ranks of these modules cannot come within 5 % of the budget.
    """
    ranks = {module.name: 0 for module in modules}
    rank = budget // max(1, sum(module.in_features + module.out_features for module in modules))
    ranks.update((module.name, min(rank, _cap(module))) for module in modules)
    # With DoRA each module costs its magnitudes too, so the first guess can be one too high.
    while parameters(modules, ranks, method) > budget:
        ranks = {name: max(0, value - 1) for name, value in ranks.items()}
    by_layer: dict[str, list[LinearModule]] = {}
    for module in modules:
        by_layer.setdefault(layer_of(module.name) or "", []).append(module)
    _raise_evenly(modules, ranks, list(by_layer.values()), budget, method)
    _raise_evenly(modules, ranks, [[module] for module in modules], budget, method)
    _fill_up(modules, ranks, budget, method)
    return _checked(modules, ranks, budget, method)


def proportional_ranks(
    modules: Sequence[LinearModule], weights: Mapping[str, float], budget: int, method: Method = "lora"
) -> dict[str, int]:
    """Return ranks in proportion to a weight of each module that together come within 5 % of a budget.

    Each step gives one rank to the module furthest below its share (the largest weight per rank + 1 that still fits:
    D'Hondt's method). A module of weight 0 gets none.

    Raises:
        UsageError: a negative weight, or the budget cannot be met.
    """
    wrong = next((name for name, weight in weights.items() if not weight >= 0), None)
    if wrong is not None:
        raise UsageError(f"the weight of {wrong} is {weights[wrong]!r}, expected a number of at least 0")
    ranks = {module.name: 0 for module in modules}
    used = 0
    open_modules = [module for module in modules if weights.get(module.name, 0.0) > 0]
    while open_modules:
        best = max(open_modules, key=lambda m: weights[m.name] / (ranks[m.name] + 1))
        cost = best.adapter_parameters(ranks[best.name] + 1, method)
        cost -= best.adapter_parameters(ranks[best.name], method) if ranks[best.name] else 0
        if ranks[best.name] >= _cap(best) or used + cost > budget:
            open_modules.remove(best)
            continue
        ranks[best.name] += 1
        used += cost
    return _checked(modules, ranks, budget, method)


def evenly_spaced(count: int, of: int) -> list[int]:
    """Return `count` indices spread evenly over range(of).

    >>> evenly_spaced(2, 6), evenly_spaced(3, 4)
    ([1, 4], [0, 2, 3])
    """
    return [int((i + 0.5) * of / count) for i in range(count)]


def _raise_evenly(
    modules: Sequence[LinearModule],
    ranks: dict[str, int],
    groups: Sequence[Sequence[LinearModule]],
    budget: int,
    method: Method,
) -> None:
    """Give one more rank to as many evenly spaced groups as the rest of the budget pays for."""
    lowest = min(ranks.values(), default=0)
    behind = [group for group in groups if all(_may_rise(module, ranks, lowest) for module in group)]
    for count in range(len(behind), 0, -1):
        raised = dict(ranks)
        for index in evenly_spaced(count, len(behind)):
            raised.update((module.name, ranks[module.name] + 1) for module in behind[index])
        if parameters(modules, raised, method) <= budget:
            ranks.update(raised)
            return


def _fill_up(modules: Sequence[LinearModule], ranks: dict[str, int], budget: int, method: Method) -> None:
    """Give one more rank to single modules, the most expensive first, while they fit."""
    lowest = min(ranks.values(), default=0)
    left = budget - parameters(modules, ranks, method)
    for module in sorted(modules, key=lambda m: -m.adapter_parameters(1, method)):
        cost = module.adapter_parameters(lowest + 1, method)
        cost -= module.adapter_parameters(lowest, method) if lowest else 0
        if cost <= left and _may_rise(module, ranks, lowest):
            ranks[module.name] += 1
            left -= cost


def _may_rise(module: LinearModule, ranks: Mapping[str, int], lowest: int) -> bool:
    return ranks[module.name] == lowest and lowest < _cap(module)


def _cap(module: LinearModule) -> int:
    return min(module.in_features, module.out_features)


def _checked(modules: Sequence[LinearModule], ranks: Mapping[str, int], budget: int, method: Method) -> dict[str, int]:
    size = parameters(modules, ranks, method)
    if abs(size - budget) > TOLERANCE * budget:
        raise UsageError(
            f"whole ranks on {len(modules)} modules give {size} trainable parameters where the budget is {budget}: "
            f"more than {TOLERANCE:.0%} off; choose a budget that is a multiple of what a rank costs there"
        )
    return {name: rank for name, rank in ranks.items() if rank}
