"""A state of the model between its base and its trained weights; no torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

ROUNDED = "rounding to the model's dtype would lose"
"""How the note begins that says that states of a rank or of random directions cannot be made in the live dtype."""


@dataclass(frozen=True)
class State:
    """Which tensors carry their change, and in which form; all others have their base values."""

    changed: frozenset[str] = frozenset()
    rank: int | None = None
    """Matrices carry only the best approximation of this rank of their change; what is no matrix keeps all of it."""
    random_seed: int | None = None
    """Changes keep their singular values (vectors: their length) but point in random directions drawn by this seed."""

    @property
    def digest(self) -> str:
        """SHA-256 that tells this state from any other."""
        form = f"rank={self.rank} random={self.random_seed}\n" if self.changed else ""
        return hashlib.sha256((form + "\n".join(sorted(self.changed))).encode()).hexdigest()
