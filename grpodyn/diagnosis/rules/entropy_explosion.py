"""The policy grows less sure, and does not gain from it."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST, overall_rise

GROWN, GROWN_FAR = 2.0, 3.0
SURE = 5.0


class EntropyExplosion(Rule):
    """The policy grows less sure, and does not gain from it."""

    id = "entropy_explosion"
    title = "Entropy climbs without a gain"
    meaning = (
        "Entropy that climbs, mostly with the divergence from the reference, means that the update pushes "
        "probability away from what was sampled faster than it finds something better: text dissolves, then "
        "quality drops."
    )
    change = "Lower the learning rate, raise the divergence penalty, or use a larger batch."
    may_be = (
        "exploration in a run whose reward rises strongly",
        "a change of sampling temperature (entropies at different temperatures do not compare)",
    )
    config_key = "grpo.learning_rate"
    reference = "verl issues 5953 and 651: entropy and divergence climb together before quality drops"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("entropy")) < SHORTEST:
            return f"the log holds fewer than {SHORTEST} rows with an entropy"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        entropy = seen.series("entropy")
        start, end = entropy.first.level.mean, entropy.last.level.mean
        if start <= 0 or end < GROWN * start or overall_rise(entropy)[1] < SURE:
            return None
        gain, sure = overall_rise(seen.reward) if len(seen.reward) >= SHORTEST else (0.0, 0.0)
        kl = seen.series("kl")
        kl_ratio = kl.last.level.mean / max(kl.first.level.mean, 1e-9) if len(kl) >= SHORTEST else 0.0
        climbing = end >= GROWN_FAR * start and kl_ratio >= GROWN_FAR
        if sure >= 3.0 and not climbing:
            return None
        evidence = [f"entropy rose from {start:.3g} to {end:.3g} nats ({end / start:.1f} ×)"]
        if len(seen.reward) >= SHORTEST:
            evidence.append(f"the reward changed by {gain:+.3g} ({sure:+.1f} standard errors)")
        if kl_ratio >= 2:
            evidence.append(f"the divergence from the reference rose {kl_ratio:.0f} ×, to {kl.last.level.mean:.3g}")
        return self.found(
            "critical" if sure <= -4.0 else "warning",
            entropy.since(entropy.smooth >= (start + end) / 2),
            *evidence,
            patch=patches.rate(seen, 0.5),
            figures={"start": start, "end": end},
        )
