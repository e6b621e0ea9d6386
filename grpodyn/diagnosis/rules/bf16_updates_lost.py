"""Updates are too small for the type that weights are stored in."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

LOW_PRECISION = ("bfloat16", "float16")
APPLIED = 0.5
"""Share of the intended step's norm under which rounding swallows most of it."""
CHANGED = 0.1
"""Share of changed elements that a float32 step far exceeds (nearly all elements change)."""
RATE = 5e-7
"""Full training in bf16, where the share that changes is not recorded: at 1e-6 a step changes 2 % of the elements, and
runs are known to learn so (measured, weights of 0.02)."""


class Bf16UpdatesLost(Rule):
    """Updates are too small for the type that weights are stored in."""

    id = "bf16_updates_lost"
    title = "Rounding to the storage type swallows the updates"
    meaning = (
        "bf16 holds 8 significant bits: an update under a 256th of a weight leaves it as it was. At the learning "
        "rates of RL most weights do not change in a step, and small adapters may not change at all."
    )
    change = "Store the trained weights in float32 (autocast still computes in bf16), or train an adapter in float32."
    may_be = ("gradients that are 0 for another reason: the intended step would then be 0 too",)
    config_key = "model.dtype"
    reference = "Unit in the last place of bf16 is 2^-8 to 2^-7 of a value; arXiv 2010.06192"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if seen.dtype is None:
            return "the storage type of the weights is not known"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        if seen.dtype not in LOW_PRECISION:
            return None
        patch = {"model": {"dtype": "float32"}}
        if seen.tensors is not None:
            source = "factor" if seen.trains_adapter else "full"
            places = seen.tensors.where(source)
            applied = self._median(seen, "update_applied_fraction", places)
            changed = self._median(seen, "update_changed_fraction", places)
            if math.isfinite(applied) or math.isfinite(changed):
                lost = applied < APPLIED if math.isfinite(applied) else changed < CHANGED
                if not lost:
                    return None
                evidence = [f"weights are stored in {seen.dtype}"]
                if math.isfinite(applied):
                    evidence.append(f"a step as stored has {applied:.2g} of the norm of the step that was meant")
                if math.isfinite(changed):
                    evidence.append(f"{changed:.1%} of the elements change in a step")
                return self.found(
                    "critical" if applied < 0.2 else "warning",
                    None,
                    *evidence,
                    patch=patch,
                    figures={"applied": applied},
                )
        rate = seen.settings.get("learning_rate")
        if seen.trains_adapter or not isinstance(rate, int | float) or rate > RATE:
            return None
        return self.found(
            "warning",
            None,
            f"weights are stored in {seen.dtype} and the learning rate is {rate:g}: already at 1e-6 "
            "a step of Adam changes only 2 % of the elements",
            "the share that changes in this run is not recorded (probe update_changed_fraction)",
            patch=patch,
            figures={"learning_rate": float(rate)},
        )

    def _median(self, seen: Observations, probe: str, places: np.ndarray) -> float:
        series = seen.tensors.median(probe, places) if seen.tensors is not None else None
        return float(np.median(series.values)) if series is not None and len(series) else math.nan
