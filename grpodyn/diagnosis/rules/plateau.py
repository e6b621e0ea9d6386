"""The reward has stopped rising."""

from __future__ import annotations

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import rise

_FEWEST = 60
RISEN = 6.0
STILL_RISING = 2.0
SMALL = 0.1
"""Share of the whole gain that the last quarter may still have brought, at the upper end of its 90 % interval."""
_ONE_SIDED = 1.64


class Plateau(Rule):
    """The reward has stopped rising."""

    id = "plateau"
    title = "The reward has stopped rising"
    meaning = (
        "After a rise the second half of the run brought nothing beyond noise. `grpodyn forecast` says what is "
        "left to gain; where another finding names a fault, this is that fault and no convergence."
    )
    change = "Stop there, or change something: harder prompts, a larger group, a schedule that has not run out."
    may_be = (
        "a learning rate that has decayed away",
        "a late rise still to come",
        "a fault that another finding names",
    )
    config_key = "grpo.max_steps"
    reference = "arXiv 2507.18014: most of the gain comes early; a plateau with a fault flag is a fault"
    follows_from = ("truncation", "entropy_collapse", "dead_groups_hard", "reward_hacking", "kl_drift", "non_finite")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.reward) < _FEWEST:
            return f"the log holds {len(seen.reward)} rows with a reward, {_FEWEST} are needed"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        reward = seen.reward
        n = len(reward)
        third, fourth = reward.rows(slice(n // 2, 3 * n // 4)), reward.rows(slice(3 * n // 4, None))
        whole, sure = rise(reward.first, fourth)
        late, late_sure = rise(third, fourth)
        error = abs(late / late_sure) if late_sure else 0.0
        # Not seen to rise is not enough: it must be seen not to rise by much.
        if (
            sure < RISEN
            or late_sure >= STILL_RISING
            or late + _ONE_SIDED * error > SMALL * whole
            or late < -SMALL * whole
        ):
            return None
        level = reward.rows(slice(n // 2, None)).level
        onset = reward.since(reward.smooth >= level.mean - 0.1 * whole - 2 * level.error) or int(reward.steps[n // 2])
        evidence = [
            f"the reward rose by {whole:.3g} and is at {level.mean:.3g} since about step {onset}",
            f"the last quarter brought {late:+.2g} ({late_sure:+.1f} standard errors)",
        ]
        rate = seen.series("learning_rate")
        if len(rate) and float(rate.values[-1]) < 0.2 * float(rate.values.max()):
            evidence.append(
                "the learning rate had fallen under a fifth of its peak: the schedule may be what stopped it"
            )
        return self.found(
            "info",
            onset,
            *evidence,
            patch={"grpo": {"max_steps": onset}} if onset > 0 else None,
            figures={"level": level.mean, "gain": whole},
        )
