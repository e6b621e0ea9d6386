"""Layers, coarse to fine: blocks of adjacent layers, of which only those that may hold something are halved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from grpodyn.attribution.asking import Outcomes, OutOfEvaluations
from grpodyn.attribution.parts import Part, block
from grpodyn.attribution.shares import Pair
from grpodyn.trace.schema import TensorInfo

SINGLE_UP_TO = 12
"""Models of up to so many layers are tested layer by layer."""
START_BLOCKS = 4
BEAM = 3
"""Blocks that are halved in one round."""
OPENS_FROM = 1.25
"""A block is halved if its effect is so many times an equal share of the gain by its number of layers …"""
HARM_ERRORS = 2.5
"""… or if accuracy rises without it by so many standard errors."""

Place = tuple[str, int]


def planned_evaluations(layers: int, stacks: int = 1) -> int:
    """Return how many evaluations the search makes at most; a block never spans two stacks.

    >>> planned_evaluations(6), planned_evaluations(32), planned_evaluations(32, stacks=2)
    (12, 44, 46)
    """
    if layers <= SINGLE_UP_TO:
        return 2 * layers
    size = -(-layers // START_BLOCKS)
    rounds = 0
    while size > 1:
        size = -(-size // 2)
        rounds += 1
    return 2 * (START_BLOCKS + stacks - 1) + 4 * BEAM * rounds


def least_evaluations(layers: int, stacks: int = 1) -> int:
    """Return how many evaluations the search makes at least.

    >>> least_evaluations(3), least_evaluations(32)
    (6, 8)
    """
    return 2 * min(START_BLOCKS + stacks - 1, layers)


class Search:
    """Finds blocks that tile the layers, fine where the gain is.

    Args:
        infos: the changed tensors.
        places: (stack, index) of the layers, in order.
        base: outcomes of the base weights.
        final: outcomes of the trained weights.
        ask: measures a part.
        affords: whether so many more evaluations may be made.
    """

    def __init__(
        self,
        infos: Sequence[TensorInfo],
        places: Sequence[Place],
        base: Outcomes,
        final: Outcomes,
        ask: Callable[[Part], Pair],
        affords: Callable[[int], bool],
    ) -> None:
        self._infos = infos
        self._layers = len(places)
        self._base, self._final = base, final
        self._ask, self._affords = ask, affords
        self._places: dict[Part, Sequence[Place]] = {}
        self._pairs: dict[Part, Pair] = {}
        self._left = planned_evaluations(len(places), len({stack for stack, _ in places}))
        self._start = list(places)
        self.unfinished = 0
        """Blocks that hold something and were not halved, as no evaluations were left for it."""

    def run(self) -> dict[Part, Pair]:
        """Return the blocks with their outcomes, in the order of the layers.

        Raises:
            OutOfEvaluations: not even the first blocks can be measured.
        """
        single = self._layers <= SINGLE_UP_TO and self._affords(2 * self._layers)
        for places in _split_evenly(self._start, self._layers if single else START_BLOCKS):
            self._measure(places)
        while self._halve():
            pass
        self.unfinished = sum(self._opens(part) for part in self._pairs if len(self._places[part]) > 1)
        order = {place: i for i, place in enumerate(self._start)}
        return dict(sorted(self._pairs.items(), key=lambda item: order[self._places[item[0]][0]]))

    def _measure(self, places: Sequence[Place]) -> Part:
        part = block(self._infos, places)
        self._pairs[part] = self._ask(part)
        self._left -= 2
        self._places[part] = places
        return part

    def _halve(self) -> bool:
        """Halve the strongest open blocks; return whether there were any."""
        candidates = [part for part in self._pairs if len(self._places[part]) > 1]
        opened = sorted((part for part in candidates if self._opens(part)), key=lambda p: -self._strength(p))[:BEAM]
        halved = False
        for part in opened:
            if self._left < 4 or not self._affords(4):
                return False
            places = self._places[part]
            try:
                for half in _split_evenly(places, 2):
                    self._measure(half)
            except OutOfEvaluations:
                # A half without the other tiles nothing.
                for extra in [p for p in self._pairs if p != part and set(self._places[p]) < set(places)]:
                    del self._pairs[extra]
                return False
            del self._pairs[part]
            halved = True
        return halved

    def _strength(self, part: Part) -> float:
        whole = float((self._final.value - self._base.value).mean())
        if whole == 0:
            return 0.0
        pair = self._pairs[part]
        kept = float((pair.keep_only.value - self._base.value).mean()) / whole
        lost = float((self._final.value - pair.put_back.value).mean()) / whole
        return max(abs(kept), abs(lost))

    def _opens(self, part: Part) -> bool:
        if self._strength(part) >= OPENS_FROM * len(self._places[part]) / self._layers:
            return True
        lost = self._final.value - self._pairs[part].put_back.value
        error = float(lost.std(ddof=1)) / np.sqrt(lost.size) if lost.size > 1 else 0.0
        return bool(error > 0 and float(lost.mean()) < -HARM_ERRORS * error)


def _split_evenly(places: Sequence[Place], count: int) -> list[Sequence[Place]]:
    """Cut into up to `count` runs of nearly equal length; a run never spans two stacks."""
    found: list[Sequence[Place]] = []
    for run in np.array_split(np.arange(len(places)), min(count, len(places))):
        stacks = dict.fromkeys(places[i][0] for i in run)
        found += [[places[i] for i in run if places[i][0] == stack] for stack in stacks]
    return found
