"""Several comparisons at once: what must give way so that the family as a whole errs as rarely as it says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grpodyn.errors import UsageError
from grpodyn.statistics.interval import check_level


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p adjusted for the family: adjusted p ≤ α rejects with P(any false rejection) ≤ α, however they depend.

    In ascending order p̃₍ᵢ₎ = max_{j ≤ i} min(1, (m − j + 1)·p₍ⱼ₎), given back in the order received. A p of nan (no
    spread to judge by) stays nan and still counts as one of the m.

    Raises:
        UsageError: a p outside [0, 1].

    Reference:
        Holm, Scandinavian J. Statistics 6 (1979) 65.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    wrong = next((p for p in p_values if not math.isnan(p) and not 0 <= p <= 1), None)
    if wrong is not None:
        raise UsageError(f"p={wrong!r} is no probability")
    adjusted = [math.nan] * len(p_values)
    known = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    running = 0.0
    for position, i in enumerate(known):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[i]))
        adjusted[i] = running
    return adjusted


def simultaneous_level(level: float, comparisons: int) -> float:
    """Return the confidence each of m intervals needs so that all hold at once with `level`: 1 − (1 − level)/m.

    Raises:
        UsageError: no comparison.

    >>> round(simultaneous_level(0.95, 5), 4)
    0.99
    """
    check_level(level)
    if comparisons < 1:
        raise UsageError(f"{comparisons} comparisons: expected at least 1")
    return 1 - (1 - level) / comparisons
