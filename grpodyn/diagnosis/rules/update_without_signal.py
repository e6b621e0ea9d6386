"""Steps move the weights although no group had a spread of reward."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

SOME, MOST = 0.1, 0.5


class UpdateWithoutSignal(Rule):
    """Steps move the weights although no group had a spread of reward."""

    id = "update_without_signal"
    title = "Updates without a reward signal"
    meaning = (
        "Where no group has a spread of reward, the advantage is 0 for every completion; what then moves the "
        "weights is the divergence penalty (or weight decay). Such steps must not be read as learning, nor their "
        "layers as important."
    )
    change = "Set `beta` to 0, or skip batches without spread; mend what takes the spread away."
    may_be = ("gradients of an auxiliary loss (experts' load balance)",)
    config_key = "grpo.beta"
    reference = "TRL issue 5588: groups without spread still pay the divergence term"
    follows_from = ("dead_groups_hard", "dead_groups_easy", "reward_without_spread", "truncation", "non_finite")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if "frac_reward_zero_std" not in seen.columns or "grad_norm" not in seen.columns:
            return "the log lacks frac_reward_zero_std or grad_norm"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        dead, gradient = seen.columns["frac_reward_zero_std"], seen.columns["grad_norm"]
        both = np.isfinite(dead) & np.isfinite(gradient)
        steps, dead, gradient = seen.steps[both], dead[both], gradient[both]
        blind = (dead >= 1 - 1e-9) & (gradient > 1e-8)
        if blind.sum() < 5 or blind.mean() < SOME:
            return None
        share = float(blind.mean())
        beta = float(seen.setting("beta") or 0.0)
        why = (
            f"through the divergence penalty (beta {beta:g})" if beta > 0 else "through something else than the reward"
        )
        return self.found(
            "warning" if share >= MOST else "info",
            int(steps[blind][0]),
            f"{int(blind.sum())} of {len(steps)} steps ({share:.0%}) had no group with spread and a gradient of "
            f"{float(np.median(gradient[blind])):.2g} all the same, {why}",
            patch={"grpo": {"beta": 0.0}} if beta > 0 else None,
            figures={"share": share},
        )
