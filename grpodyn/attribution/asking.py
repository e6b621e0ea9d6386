"""Evaluations of states of the model, each made once: counted, capped, remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from grpodyn.attribution.state import State

Split = Literal["choose", "confirm"]


@dataclass(frozen=True)
class Outcomes:
    """What one state does on n prompts."""

    value: NDArray[np.float64]
    """(n,): probability of the right answer, or mean reward of the samples, of each prompt."""
    greedy: float = float("nan")
    """Share of prompts that greedy decoding answers right; nan where it was not measured."""

    @property
    def mean(self) -> float:
        """Mean over prompts."""
        return float(self.value.mean())


class Memory(Protocol):
    """Keeps outcomes beyond this process."""

    def get(self, state: State, split: Split) -> Outcomes | None:
        """Return what was measured before, or None."""
        ...

    def put(self, state: State, split: Split, outcomes: Outcomes) -> None:
        """Keep it."""
        ...


class NoMemory:
    """Keeps nothing."""

    def get(self, state: State, split: Split) -> Outcomes | None:
        """Return None."""
        return None

    def put(self, state: State, split: Split, outcomes: Outcomes) -> None:
        """Do nothing."""


class OutOfEvaluations(Exception):  # noqa: N818  # a signal between stages, no error that anybody sees
    """The allowance of evaluations is spent."""


@dataclass
class Asker:
    """Answers what a state's outcomes are.

    Args:
        evaluate: measures a state on a split.
        memory: what is known from an earlier start.
        most: how many evaluations may be made in all, known ones included; None for no cap.
        told: called after each new evaluation with its number.
    """

    evaluate: Callable[[State, Split], Outcomes]
    memory: Memory = field(default_factory=NoMemory)
    most: int | None = None
    told: Callable[[int], None] = lambda made: None
    reserved: int = 0
    """Evaluations that are kept back for later stages."""
    made: int = 0
    """Evaluations made by this process."""
    _known: dict[tuple[State, Split], Outcomes] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """Distinct evaluations that the answers so far rest on."""
        return len(self._known)

    def ask(self, state: State, split: Split = "choose") -> Outcomes:
        """Return a state's outcomes.

        Raises:
            OutOfEvaluations: it is not known and no evaluation is left.
        """
        # Nothing that changed has no form.
        asked = state if state.changed else State()
        known = self._known.get((asked, split))
        if known is not None:
            return known
        if self.most is not None and self.used >= self.most - self.reserved:
            raise OutOfEvaluations
        outcomes = self.memory.get(asked, split)
        if outcomes is None:
            outcomes = self.evaluate(asked, split)
            self.made += 1
            self.memory.put(asked, split, outcomes)
            self.told(self.made)
        self._known[(asked, split)] = outcomes
        return outcomes

    def knows(self, state: State, split: Split = "choose") -> bool:
        """Return whether the answer costs nothing."""
        asked = state if state.changed else State()
        return (asked, split) in self._known
