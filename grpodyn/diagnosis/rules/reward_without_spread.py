"""The completions of a group all get one reward that is neither the lowest nor the highest."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

NEARLY_ALL = 0.95
LOW, HIGH = 0.15, 0.85


class RewardWithoutSpread(Rule):
    """The completions of a group all get one reward that is neither the lowest nor the highest."""

    id = "reward_without_spread"
    title = "The reward does not tell the completions of a group apart"
    meaning = (
        "Only the spread within a group teaches. A reward can have a middling mean, and parts with a large standard "
        "deviation, and still give every completion of a prompt the same: then no update comes from it."
    )
    change = "Look at the rewards of one group: make the reward depend on the completion."
    may_be = (
        "completions of a group that are identical (temperature 0, a collapsed policy)",
        "reward parts that cancel",
        "a reward that depends on the prompt alone",
    )
    config_key = "rewards"
    reference = "A_i = (r_i − mean)/std within the group (arXiv 2402.03300), 0 where the group is constant"
    follows_from = ("reward_opposition", "entropy_collapse")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.dead) < 5:
            return "neither whole groups of rollouts nor the share without spread (frac_reward_zero_std) is recorded"
        if len(seen.reward) < 5:
            return "no reward is recorded"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        end, level = seen.dead.last.level.mean, seen.reward.last.level.mean
        onset = seen.dead.since(seen.dead.smooth >= NEARLY_ALL)
        if onset is None or end < NEARLY_ALL:
            return None
        if seen.groups is not None:
            if seen.groups.dead_low.last.level.mean + seen.groups.dead_high.last.level.mean > 0.5:
                return None
        else:
            low, high = seen.reward_range
            if not low + LOW * (high - low) < level < low + HIGH * (high - low):
                return None
        evidence = [
            f"{end:.0%} of groups had no spread of reward at the end, since step {onset}",
            f"the mean reward is {level:.3g}, neither the lowest nor the highest",
        ]
        evidence += self._between(seen)
        return self.found(
            "critical",
            onset,
            *evidence,
            patch={"grpo": {"temperature": 1.0}} if seen.settings.get("temperature") == 0 else None,
            figures={"dead": end, "reward": level},
        )

    def _between(self, seen: Observations) -> list[str]:
        found = []
        for name in seen.parts:
            deviation = seen.series(f"rewards/{name}/std")
            if len(deviation) and float(np.max(deviation.values)) > 0:
                found.append(
                    f"`{name}` has a standard deviation of {deviation.last.level.mean:.3g}, all of it between "
                    "prompts or undone by another part"
                )
        if not found and float(np.ptp(seen.reward.values)) < 1e-9:
            found.append("it is the same at every step: the reward is a constant")
        return found
