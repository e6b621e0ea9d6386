"""Held-out accuracy in a run's `evaluations`: the metrics it is stored under, and how it is read back. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

ACCURACY = "heldout/accuracy"
GREEDY = "heldout/greedy_accuracy"
BEST_TEMPERATURE = "heldout/best_temperature"
BEST_TEMPERATURE_ACCURACY = "heldout/best_temperature_accuracy"
PASS_AT = "heldout/pass@"  # noqa: S105  # no password
"""With k after it: the chance that at least one of k samples at temperature 1 is right."""

TRUNCATED = "heldout/truncated"
"""Share of samples that were cut off before they ended."""
ENDED = "heldout/ended"
"""Share that ended by an end token."""
LENGTH = "heldout/mean_length"


@dataclass(frozen=True)
class HeldOut:
    """One evaluation on held-out prompts, as shares of them; nan where a number was not measured."""

    step: int
    """−1 if there is no such evaluation."""
    accuracy: float = math.nan
    """Mean exact probability of the right answer at temperature 1."""
    greedy: float = math.nan
    best_temperature: float = math.nan
    best_temperature_accuracy: float = math.nan


def held_out_by_step(run: Run) -> dict[int, HeldOut]:
    """Return what the run holds of held-out accuracy, by step in ascending order; step 0 is the base."""
    data = run.evaluations
    if "values" not in data or not data.sizes.get("row", 0):
        return {}
    values = np.asarray(data["values"].values, np.float64)
    column = {str(name): values[:, i] for i, name in enumerate(data["metric"].values)}
    steps = np.asarray(data["step"].values, np.int64)
    found: dict[int, HeldOut] = {}
    for step in np.unique(steps).tolist():
        at_step = steps == step
        numbers = [
            _last(column[name][at_step]) if name in column else math.nan
            for name in (ACCURACY, GREEDY, BEST_TEMPERATURE, BEST_TEMPERATURE_ACCURACY)
        ]
        # The trainer's own evaluations of that step are no held-out accuracy.
        if not all(math.isnan(number) for number in numbers):
            found[step] = HeldOut(step, *numbers)
    return found


def _last(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Return the last finite value: one evaluation may come as several rows, and one step be evaluated again."""
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.nan
