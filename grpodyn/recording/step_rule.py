"""What an optimizer's rule has to tell: the step it meant to take, from its state after the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Select = Callable[[Tensor], Tensor]
"""Picks some rows of any tensor shaped like the parameter."""
Group = dict[str, Any]
"""A parameter group of an optimizer: its options."""


@dataclass(frozen=True)
class Part:
    """Some rows of one parameter: which, and what they were before the step."""

    parameter: Tensor
    select: Select
    previous: Tensor


class Rule(Protocol):
    """Reads one optimizer's steps."""

    def refresh(self) -> None:
        """Read once what all parameters' steps need. Called after each step of the optimizer."""
        ...

    def obstacle(self, parameter: Tensor, group: Group) -> str | None:
        """Return why the step of a parameter that has a gradient is not known, or None."""
        ...

    def steps(self, parts: Sequence[Part], groups: Sequence[Group]) -> list[Tensor]:
        """Return the steps of parts that have no obstacle, in at least float32.

        Args:
            parts: what moved.
            groups: the group of each.
        """
        ...


NO_STATE = "it has a gradient, but the optimizer keeps no state of it: something else moves it, if anything does"


def dense(gradient: Tensor) -> Tensor:
    """Return a gradient with all its zeros, where it is sparse."""
    return gradient if gradient.layout == torch.strided else gradient.to_dense()
