"""Groups are too small for the prompts that are left."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

MANY, TOO_MANY = 0.4, 0.95
LARGE = 16
"""Group size beyond which a larger one rarely pays."""


class GroupSize(Rule):
    """Groups are too small for the prompts that are left."""

    id = "group_size"
    title = "Many groups agree by chance: the group may be too small"
    meaning = (
        "A prompt that is solved with probability p gives a group without spread with probability p^G + (1−p)^G. "
        "Where many groups agree though the task is neither hopeless nor mastered, a larger G finds the spread."
    )
    change = "Double the group size, and take half the prompts a step if completions are what costs."
    may_be = ("prompts of which some are hopeless and some mastered: no G helps there, other prompts do",)
    config_key = "grpo.num_generations"
    reference = "E_p[p^G + (1−p)^G]; `grpodyn group-size` predicts it for other G from recorded groups"
    follows_from = ("truncation", "learning_rate_high", "reward_collapse", "non_finite")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.dead) < 10 or not len(seen.reward):
            return "neither whole groups of rollouts nor the share without spread (frac_reward_zero_std) is recorded"
        if seen.groups is None and not seen.known("num_generations"):
            return "the group size is not known"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        size = seen.groups.size if seen.groups is not None else int(seen.setting("num_generations"))
        end = seen.dead.last.level
        low, high = seen.reward_range
        place = (seen.reward.last.level.mean - low) / max(high - low, 1e-9)
        if size >= LARGE or end.mean - 2 * end.error < MANY or end.mean >= TOO_MANY or not 0.15 <= place <= 0.85:
            return None
        if (
            seen.groups is not None
            and max(seen.groups.dead_low.last.level.mean, seen.groups.dead_high.last.level.mean) >= 0.7
        ):
            return None
        evidence = [
            f"{end.mean:.0%} of groups of {size} had no spread at the end, at a mean reward of "
            f"{seen.reward.last.level.mean:.3g}"
        ]
        if seen.groups is not None:
            evidence.append(
                f"{seen.groups.dead_low.last.level.mean:.0%} all wrong, {seen.groups.dead_high.last.level.mean:.0%} "
                "all right"
            )
        return self.found(
            "info", None, *evidence, patch=patches.group_size(seen, 2), figures={"dead": end.mean, "size": float(size)}
        )
