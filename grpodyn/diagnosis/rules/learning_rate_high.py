"""The steps are too large."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.collapse import collapse_of
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import Series

LARGE_STEP = 5e-3
"""Norm of a step over the norm of its weight; RL runs at usual rates stay under 1e-3."""
ADAPTER = 1.6e-3
"""α × learning rate at which one practitioner's adapters broke (second-hand): beside other evidence only."""
FULL = 2e-5
"""Ten times what is usual in full training: beside a collapse only, for small models take more."""
GRADIENT, ENTROPY = 3.0, 1.8


class LearningRateHigh(Rule):
    """The steps are too large."""

    id = "learning_rate_high"
    title = "The learning rate is too high"
    meaning = (
        "Quality collapses, and the steps are the reason: they are large against the weights, or gradients and "
        "entropy jump when it goes."
    )
    change = "A third of the learning rate, from the start; for an adapter compare α × learning rate between runs."
    may_be = ("a broken batch or reward at that step", "NaN (see non_finite)")
    config_key = "grpo.learning_rate"
    reference = "Under Adam an adapter's first step is proportional to α × learning rate, whatever its rank"
    follows_from = ("non_finite",)

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.reward) < 10 and seen.held_out is None:
            return "the log holds fewer than 10 rows with a reward"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        collapse = collapse_of(seen)
        if collapse is None:
            return None
        evidence = self._steps(seen) + self._jumps(seen, collapse.onset)
        if not evidence:
            return None
        rate = seen.settings.get("learning_rate")
        named = [f"the learning rate is {rate:g}"] if isinstance(rate, int | float) else []
        return self.found(
            "critical",
            collapse.onset,
            *collapse.evidence,
            *evidence,
            *named,
            patch=patches.rate(seen, 1 / 3 if not self._far(seen) else 0.1),
            figures={"best": collapse.best, "end": collapse.end},
        )

    def _ratio(self, seen: Observations) -> float:
        if seen.tensors is None:
            return math.nan
        places = seen.tensors.where("lora" if seen.trains_adapter else "full", "linear")
        series = seen.tensors.median("update_ratio", places)
        return float(np.max(series.values[:10])) if len(series) else math.nan

    def _far(self, seen: Observations) -> bool:
        return self._ratio(seen) >= 2 * LARGE_STEP

    def _steps(self, seen: Observations) -> list[str]:
        found = []
        ratio = self._ratio(seen)
        if ratio >= LARGE_STEP:
            found.append(f"a step is {ratio:.1%} of the weights' norm at the start; usual rates give under 0.1 %")
        size = seen.step_size
        if seen.trains_adapter and size is not None and size >= ADAPTER:
            found.append(f"α × learning rate is {size:.2g}, over the {ADAPTER:g} at which adapters were seen to break")
        if not seen.trains_adapter and size is not None and size >= FULL:
            found.append("full training of language models usually takes a learning rate of 1e-6 to 2e-6")
        return found

    def _jumps(self, seen: Observations, onset: int) -> list[str]:
        found = []
        gradient, entropy = self._jump(seen.series("grad_norm"), onset), self._jump(seen.series("entropy"), onset)
        if gradient >= GRADIENT:
            found.append(f"gradients grew {gradient:.1f} × as it went")
        if entropy >= ENTROPY:
            found.append(f"entropy grew {entropy:.1f} × as it went")
        return found

    def _jump(self, series: Series, onset: int) -> float:
        """Return the median around and after a step over that before it; nan where one of them is not there."""
        cut = int((series.steps < onset).sum())
        before, after = series.values[: max(0, cut - 5)], series.values[max(0, cut - 5) :]
        if len(before) < 5 or len(after) < 5:
            return math.nan
        # A reward that is gone leaves gradients of 0: what counts is how large they were on the way.
        usual = float(np.median(before))
        return float(np.quantile(after, 0.75)) / usual if usual > 0 else math.nan
