"""Most groups teach nothing, because all their completions are wrong."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

TOO_MANY = 0.7
"""Share of groups without spread from which a task was called not viable (the gate of a public GRPO code base)."""
LOW = 0.15
"""Place in the range of rewards up to which a group without spread counts as wrong, where only means are logged."""


class DeadGroupsHard(Rule):
    """Most groups teach nothing, because all their completions are wrong."""

    id = "dead_groups_hard"
    title = "Most groups are all wrong: the task is too hard"
    meaning = (
        "Advantages compare completions of one prompt. Where all of them are wrong, every advantage is 0 and the group "
        "gives no gradient; its completions were sampled for nothing."
    )
    change = (
        "Take easier prompts (or a curriculum), reward partial success, warm the model up with a few demonstrations; a "
        "larger group finds rare successes at the cost of more completions."
    )
    may_be = (
        "a reward function that always returns its lowest value, or reads the wrong column",
        "truncation, or an answer format that the model was never shown",
    )
    config_key = "grpo.num_generations"
    reference = "Advantages of equal rewards are 0 (arXiv 2402.03300); dynamic sampling, DAPO (arXiv 2503.14476)"
    follows_from = ("truncation", "learning_rate_high", "non_finite", "reward_missing", "kl_blow_up")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.dead) < 5:
            return "neither whole groups of rollouts nor the share without spread (frac_reward_zero_std) is recorded"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        if seen.groups is not None:
            share = seen.groups.dead_low
        else:
            low, high = seen.reward_range
            level = seen.reward.last.level.mean if len(seen.reward) else high
            if not level <= low + LOW * (high - low):
                return None
            share = seen.dead
        end = share.last.level.mean
        onset = share.since(share.smooth >= TOO_MANY)
        if onset is None or end < TOO_MANY:
            return None
        evidence = [f"{end:.0%} of groups were all wrong at the end, {TOO_MANY:.0%} or more since step {onset}"]
        if len(seen.reward):
            evidence.append(f"mean reward {seen.reward.last.level.mean:.3g}")
        if end == 1.0:
            evidence.append("not one group had a right and a wrong completion: nothing is learnt")
        return self.found(
            "critical" if end >= 0.95 else "warning",
            onset,
            *evidence,
            patch=patches.group_size(seen, 2),
            figures={"all_wrong": end},
        )
