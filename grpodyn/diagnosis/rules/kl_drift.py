"""The policy goes on leaving its reference, and the reward no longer rises."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST, rise

DOUBLED = 1.8
FAR = 0.4
"""Nats a token from which a divergence is worth a word."""
SURE = 4.0


class KlDrift(Rule):
    """The policy goes on leaving its reference, and the reward no longer rises."""

    id = "kl_drift"
    title = "The divergence from the reference climbs without a gain"
    meaning = (
        "Divergence is what a gain costs, and the best known predictor of what is forgotten. When it goes on climbing "
        "after the reward has stopped, the cost is paid for nothing."
    )
    change = "Stop at the step where the reward stopped, or raise `beta`; a lower learning rate slows both."
    may_be = ("a divergence against a reference that is not the start (a merged adapter, a re-set reference)",)
    config_key = "grpo.beta"
    reference = "RL's Razor (arXiv 2509.04259): forgetting follows the divergence on the new task"
    follows_from = ("kl_blow_up", "entropy_explosion")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("kl")) < SHORTEST:
            why = " (beta is 0: it is not computed, which is no fault)" if seen.setting("beta") == 0 else ""
            return f"the log holds no divergence{why}"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        kl = seen.series("kl")
        half = kl.rows(slice(len(kl) // 2, None))
        before, after = half.first, half.last
        grown = after.level.mean / max(before.level.mean, 1e-9)
        if after.level.mean < FAR or grown < DOUBLED or rise(before, after)[1] < SURE:
            # A climb may have been in the first half: from the start it must be an order of magnitude.
            whole = kl.last.level.mean / max(kl.first.level.mean, 1e-9)
            if after.level.mean < FAR or whole < 8 or rise(kl.first, kl.last)[1] < SURE or grown < 1.3:
                return None
        reward = seen.reward
        if len(reward) < SHORTEST:
            return None
        late = reward.rows(slice(len(reward) // 2, None))
        gain, sure = rise(late.first, late.last)
        if sure >= 2.0:
            return None
        onset = kl.since(kl.smooth >= 0.5 * kl.last.level.mean)
        beta = float(seen.setting("beta") or 0.0)
        return self.found(
            "warning",
            onset,
            f"the divergence rose from {kl.first.level.mean:.2g} to {kl.last.level.mean:.3g} nats, {grown:.1f} × in "
            "the second half alone",
            f"in that half the reward changed by {gain:+.3g} ({sure:+.1f} standard errors)",
            patch={"grpo": {"beta": patches.rounded(max(2 * beta, 0.02))}},
            figures={"kl": kl.last.level.mean, "growth": grown},
        )
