"""The divergence from the reference jumps by orders of magnitude."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST

TIMES = 20.0
LEAST = 1.0
"""Nats a token that a blow-up has at least."""
SUDDEN = 4.0
"""Times that ten rows lie over the ten before: a slow climb is a drift, and another finding."""
_OF_TEN = 3
"""Rows of ten in a row: the k3 estimate is heavy-tailed, and a single spike is only that."""


class KlBlowUp(Rule):
    """The divergence from the reference jumps by orders of magnitude."""

    id = "kl_blow_up"
    title = "The divergence from the reference blows up"
    meaning = (
        "A divergence of whole nats a token means that the policy writes what its reference never would. With a "
        "penalty it swamps the loss; it often comes just before NaN, or before one token is repeated for ever."
    )
    change = "Go back to the last checkpoint before it, with a lower learning rate or clipping of the gradient."
    may_be = (
        "log-probabilities of sampler and trainer that do not fit (see sampler_mismatch)",
        "a wrong reference model",
    )
    config_key = "grpo.learning_rate"
    reference = "The k3 estimator is exp(−x) − 1 + x of the log-ratio x (Schulman): it grows exponentially"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("kl")) < SHORTEST:
            why = " (beta is 0: it is not computed, which is no fault)" if seen.setting("beta") == 0 else ""
            return f"the log holds no divergence{why}"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        kl = seen.series("kl")
        usual = float(np.median(kl.values[: max(10, len(kl) // 4)]))
        high = kl.values > max(TIMES * usual, LEAST)
        counts = np.cumsum(high)
        # Where one begins: at least three of the ten rows up to here.
        place = np.flatnonzero(counts - np.concatenate([np.zeros(10, int), counts[:-10]]) >= _OF_TEN)
        if not place.size:
            return None
        first = int(np.flatnonzero(high[max(0, place[0] - 9) : place[0] + 1])[0]) + max(0, int(place[0]) - 9)
        around = kl.values[max(0, first - 10) : first], kl.values[first : first + 10]
        if first and float(np.median(around[1])) < SUDDEN * float(np.median(around[0])):
            return None
        worst = float(kl.values.max())
        evidence = [f"the divergence went from a usual {usual:.2g} to {worst:.3g} nats"]
        after = seen.reward.rows(slice(int((seen.reward.steps < kl.steps[first]).sum()), None))
        if len(after) >= 3:
            evidence.append(f"the reward since then is {after.level.mean:.3g}")
        return self.found(
            "critical",
            int(kl.steps[first]),
            *evidence,
            patch=patches.rate(seen, 1 / 3),
            figures={"usual": usual, "worst": worst},
        )
