"""A live model that is moved from state to state by rewriting only what differs, and put back bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from torch import Tensor

from grpodyn.attribution.changes import Changed, Forms
from grpodyn.attribution.state import State

Form = tuple[int | None, int | None] | None
"""(rank, seed) of a tensor that carries its change, None of one that has its base values."""


_UNKNOWN: Form = (-1, -1)


class Writer(Protocol):
    """What holds the live weights."""

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace weights (or their first rows) by canonical name; consumed one at a time."""
        ...


class PatchedModel:
    """Keeps track of which form every changed tensor has in the live model.

    Args:
        writer: holds the live weights, at first those of the base.
        forms: works out values.
        changed: the tensors that can carry a change.
    """

    def __init__(self, writer: Writer, forms: Forms, changed: Iterable[Changed]) -> None:
        self._writer = writer
        self._forms = forms
        self._changed: Mapping[str, Changed] = {entry.info.name: entry for entry in changed}
        self._now: dict[str, Form] = dict.fromkeys(self._changed)

    def take(self, state: State) -> None:
        """Bring the live weights into a state, reading one tensor at a time."""
        wanted = {name: _form(name, state) for name in self._changed}
        differing = [name for name, form in wanted.items() if self._now[name] != form]

        def values() -> Iterable[tuple[str, Tensor]]:
            for name in differing:
                # Of an interrupted write nothing is known: neither the old form nor the new one.
                self._now[name] = _UNKNOWN
                yield name, self._forms.value(self._changed[name], state)
                self._now[name] = wanted[name]

        if differing:
            self._writer.write(values())

    def restore(self) -> None:
        """Put the base weights back, bit for bit."""
        self.take(State())


def _form(name: str, state: State) -> Form:
    return (state.rank, state.random_seed) if name in state.changed else None
