"""The reward has fallen and stayed down."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.collapse import collapse_of
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule


class RewardCollapse(Rule):
    """The reward has fallen and stayed down."""

    id = "reward_collapse"
    title = "The reward has collapsed"
    meaning = (
        "The reward, or held-out accuracy, has lost at least half of its best level and not come back. Other "
        "findings of the same step say why, if anything in the log does."
    )
    change = "Go back to a checkpoint before it; lower the learning rate, or mend what another finding names."
    may_be = ("harder prompts from some step on (a curriculum)", "a reward function that broke: read completions")
    config_key = "grpo.learning_rate"
    reference = "A level lost by more than its noise; held-out accuracy where it is recorded"
    follows_from = ("learning_rate_high", "non_finite", "kl_blow_up", "truncation", "entropy_explosion")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.reward) < 10 and seen.held_out is None:
            return "the log holds fewer than 10 rows with a reward"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        found = collapse_of(seen)
        if found is None:
            return None
        return self.found(
            "critical",
            found.onset,
            *found.evidence,
            patch=patches.rate(seen, 1 / 3),
            figures={"best": found.best, "end": found.end},
        )
