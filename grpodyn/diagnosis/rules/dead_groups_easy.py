"""Most groups teach nothing, because all their completions are right."""

from __future__ import annotations

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

TOO_MANY = 0.7
HIGH = 0.85
"""Place in the range of rewards from which a group without spread counts as right, where only means are logged."""


class DeadGroupsEasy(Rule):
    """Most groups teach nothing, because all their completions are right."""

    id = "dead_groups_easy"
    title = "Most groups are all right: the task is mastered"
    meaning = (
        "Where all completions of a prompt are right, the group gives no gradient. If training brought the model here, "
        "it is done; if it began so, the prompts are too easy."
    )
    change = "Stop, or go on with harder prompts."
    may_be = ("a reward function that always returns its highest value", "a policy that has lost its variety")
    config_key = "grpo.max_steps"
    reference = "Advantages of equal rewards are 0 (arXiv 2402.03300); dynamic sampling, DAPO (arXiv 2503.14476)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.dead) < 5:
            return "neither whole groups of rollouts nor the share without spread (frac_reward_zero_std) is recorded"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        if seen.groups is not None:
            share = seen.groups.dead_high
        else:
            low, high = seen.reward_range
            if not (len(seen.reward) and seen.reward.last.level.mean >= low + HIGH * (high - low)):
                return None
            share = seen.dead
        end = share.last.level.mean
        onset = share.since(share.smooth >= TOO_MANY)
        if onset is None or end < TOO_MANY:
            return None
        # A task can be mastered in ten steps: only the very first rows say how it began.
        from_start = float(share.values[:3].mean()) >= TOO_MANY
        how = "and it began so: the prompts are too easy" if from_start else "reached by training: the task is mastered"
        last = int(seen.steps.max()) if len(seen.steps) else onset
        return self.found(
            "warning" if from_start else "info",
            onset,
            f"{end:.0%} of groups were all right at the end, {TOO_MANY:.0%} or more since step {onset}, {how}",
            f"mean reward {seen.reward.last.level.mean:.3g}",
            patch={"grpo": {"max_steps": onset}} if not from_start and 0 < onset < last else None,
            config_key="task" if from_start else None,
            figures={"all_right": end},
        )
