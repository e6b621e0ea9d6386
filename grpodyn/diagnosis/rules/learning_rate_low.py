"""The steps are too small to do anything."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import overall_rise

FULL, ADAPTER = 2e-7, 3.2e-5
"""Learning rate of full training, α × learning rate of an adapter: a tenth of what is usual (1e-6 to 2e-6, 3.2e-4)."""
FLAT = 3.0
_FEWEST = 40


class LearningRateLow(Rule):
    """The steps are too small to do anything."""

    id = "learning_rate_low"
    title = "The learning rate is too low"
    meaning = (
        "There is spread to learn from, and nothing moves: reward, entropy and divergence stay where they were, at "
        "a rate far under what is usual."
    )
    change = "Ten times the learning rate."
    may_be = ("updates that rounding swallows (see bf16_updates_lost)", "a task at its ceiling", "a warm-up")
    config_key = "grpo.learning_rate"
    reference = "α × learning rate of 3.2e-4 as a safe default (10 × a full rate of 1e-6 at α 32)"
    follows_from = ("bf16_updates_lost", "lora_untrained")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.reward) < _FEWEST:
            return f"the log holds {len(seen.reward)} rows with a reward, {_FEWEST} are needed"
        if seen.step_size is None:
            return "the learning rate (and an adapter's alpha) is not known"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        size = seen.step_size
        usual = ADAPTER if seen.trains_adapter else FULL
        if size is None or size > usual or (len(seen.dead) and seen.dead.level.mean > 0.9) or seen.mastered:
            return None
        gain, sure = overall_rise(seen.reward)
        entropy, kl = seen.series("entropy"), seen.series("kl")
        if abs(sure) >= FLAT or (len(entropy) >= _FEWEST and self._moved(seen)):
            return None
        if len(kl) and float(np.median(np.abs(kl.values))) > 1e-3:
            return None
        name = "α × learning rate" if seen.trains_adapter else "the learning rate"
        evidence = [
            f"{name} is {size:.2g}; {'3.2e-4' if seen.trains_adapter else '1e-6 to 2e-6'} is usual",
            f"over {len(seen.reward)} rows the reward changed by {gain:+.2g} ({sure:+.1f} standard errors)",
        ]
        if len(entropy):
            change = entropy.last.level.mean / max(entropy.first.level.mean, 1e-12) - 1
            evidence.append(f"entropy changed by {change:+.1%}")
        return self.found("warning", None, *evidence, patch=patches.rate(seen, 10), figures={"step_size": size})

    def _moved(self, seen: Observations) -> bool:
        entropy = seen.series("entropy")
        start, end = entropy.first.level.mean, entropy.last.level.mean
        return abs(overall_rise(entropy)[1]) >= 6.0 and abs(end - start) > 0.15 * abs(start)
