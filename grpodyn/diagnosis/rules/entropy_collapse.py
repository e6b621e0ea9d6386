"""The policy has grown sure without having mastered the task."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST, rise

LEFT = 0.12
"""Share of the starting entropy under which it has collapsed."""


class EntropyCollapse(Rule):
    """The policy has grown sure without having mastered the task."""

    id = "entropy_collapse"
    title = "Entropy has collapsed short of mastery"
    meaning = (
        "Without entropy the completions of a group are all alike: nothing is explored, groups lose their spread, "
        "and the reward stays where it is. Entropy that falls because everything is right is no fault."
    )
    change = (
        "Lower the learning rate or add a little divergence penalty; with several updates a batch, raise the upper "
        "clip (`epsilon_high` 0.28)."
    )
    may_be = ("a task whose right completion is one short string: entropy falls with success",)
    config_key = "grpo.learning_rate"
    reference = "arXiv 2505.22617: R = −a·exp(H) + b, no gain is left at H = 0; DAPO, clip-higher (arXiv 2503.14476)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("entropy")) < SHORTEST:
            return f"the log holds fewer than {SHORTEST} rows with an entropy"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        entropy = seen.series("entropy")
        start, end = entropy.first.level.mean, entropy.last.level.mean
        if start <= 0 or end > LEFT * start or seen.mastered:
            return None
        onset = entropy.since(entropy.smooth <= 0.5 * start)
        reward = seen.reward
        evidence = [f"entropy fell from {start:.3g} to {end:.2g} nats ({end / start:.0%} of its start)"]
        severity: str = "warning"
        if len(reward) >= SHORTEST and onset is not None:
            after = reward.rows(slice(int((reward.steps < onset).sum()), None))
            if len(after) >= 10:
                gain, sure = rise(after.first, after.last)
                if sure >= 4.0:
                    # Still learning: sharpening that pays is not a collapse yet.
                    return None
                evidence.append(f"since step {onset} the reward changed by {gain:+.3g} ({sure:+.1f} standard errors)")
                severity = "critical" if sure <= -4.0 else "warning"
        if len(seen.dead):
            evidence.append(f"{seen.dead.last.level.mean:.0%} of groups had no spread of reward at the end")
        patch = {"grpo": {"epsilon_high": 0.28}} if seen.setting("num_iterations") > 1 else patches.rate(seen, 0.5)
        return self.found(
            "critical" if severity == "critical" else "warning",
            onset,
            *evidence,
            patch=patch,
            config_key="grpo.epsilon_high" if seen.setting("num_iterations") > 1 else None,
            figures={"start": start, "end": end},
        )
