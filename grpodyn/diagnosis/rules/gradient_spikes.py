"""Gradients far over their usual size, again and again."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import Series, rise, trailing_mean, trailing_median

TIMES = 10.0
DENSE = 0.03
"""Share of a hundred rows from which spikes are more than chance."""
_SIGNAL = 0.4
"""Share of groups with spread that a step needs for its gradient to count as usual."""
_FEWEST = 60


class GradientSpikes(Rule):
    """Gradients far over their usual size, again and again."""

    id = "gradient_spikes"
    title = "Gradients spike"
    meaning = (
        "Steps whose gradient is many times the usual one, several in a hundred. Clipped, they do little harm, and "
        "a reward that goes on rising proves it: the gradient's norm alone is never a reason to stop."
    )
    change = "Clip at the usual norm; if the reward suffers, lower the learning rate."
    may_be = (
        "batches with few groups of spread, whose gradients differ more",
        "8-bit optimizer states, whose quantisation shows late",
    )
    config_key = "grpo.max_grad_norm"
    reference = "TRL issue 2980: late spikes under an 8-bit optimizer while the reward still rose"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(self._gradient(seen)) < _FEWEST:
            return f"the log holds fewer than {_FEWEST} rows with a gradient's norm and a reward to learn from"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        gradient = self._gradient(seen)
        usual = trailing_median(gradient.values)
        with np.errstate(invalid="ignore", divide="ignore"):
            spikes = gradient.values > TIMES * usual
        if spikes.sum() < 3 or trailing_mean(spikes.astype(float), 100).max() < DENSE:
            return None
        first = int(np.flatnonzero(spikes)[0])
        onset = int(gradient.steps[first])
        worst = float((gradient.values[spikes] / usual[spikes]).max())
        typical = float(np.median(gradient.values))
        evidence = [
            f"{int(spikes.sum())} of {len(gradient)} steps have a gradient over {TIMES:.0f} × the usual "
            f"{typical:.2g}, up to {worst:.0f} ×"
        ]
        hurt = self._hurt(seen.reward, onset)
        if seen.mastered and not hurt:
            # The few groups that still differ decide the gradient: it jumps with their number.
            return None
        evidence.append(
            "the reward has fallen since the first" if hurt else "the reward has not suffered: no reason to stop"
        )
        return self.found(
            "warning" if hurt else "info",
            onset,
            *evidence,
            patch={"grpo": {"max_grad_norm": patches.rounded(typical)}},
            figures={"spikes": float(spikes.sum()), "worst": worst},
        )

    def _gradient(self, seen: Observations) -> Series:
        values = seen.columns.get("grad_norm")
        if values is None:
            return seen.series("grad_norm")
        held = np.isfinite(values) & (values > 0)
        dead = seen.columns.get("frac_reward_zero_std")
        if dead is not None:
            held &= ~(dead > 1 - _SIGNAL)
        return Series(seen.steps[held], values[held])

    def _hurt(self, reward: Series, onset: int) -> bool:
        cut = int((reward.steps < onset).sum())
        before, after = reward.rows(slice(max(0, cut - 50), cut)), reward.rows(slice(cut, None))
        return len(before) >= 10 and len(after) >= 10 and rise(before, after.last)[1] <= -4.0
