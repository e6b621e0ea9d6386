"""The reward that is trained on rises while what it stands for falls."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST, Series, overall_rise

SURE = 4.0
"""Standard errors from which a change over the run is one."""
LOST = 0.15
"""Share of its starting value that the task must lose."""


class RewardHacking(Rule):
    """The reward that is trained on rises while what it stands for falls."""

    id = "reward_hacking"
    title = "The total reward rises while the task's part, or held-out accuracy, falls"
    meaning = (
        "The policy has found completions that score without solving the task: a format that is paid whatever it "
        "holds, an answer that lists every choice, a test that can be passed by a trick. The total is then no "
        "measure of progress."
    )
    change = "Weigh the other parts less, pay them only to right answers, and read completions of the last steps."
    may_be = (
        "a training set that is being learnt by heart (held-out accuracy falls, training reward rises honestly)",
        "an evaluation with other settings (temperature, length cap, prompt) than training",
    )
    config_key = "rewards"
    reference = "Train–evaluation decoupling as a fault of its own: arXiv 2606.30789; open-r1 issue 255"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.reward) < SHORTEST:
            return f"the log holds {len(seen.reward)} rows with a reward, {SHORTEST} are needed"
        if len(seen.parts) < 2 and seen.held_out is None:
            return "there is one reward function and no held-out evaluation to hold it against"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        gain, sure = overall_rise(seen.reward)
        if sure < SURE:
            return None
        fallen = self._fallen_part(seen)
        held_out = self._fallen_held_out(seen)
        if fallen is None and held_out is None:
            return None
        evidence = [f"the total reward rose by {gain:.3g} ({sure:.0f} standard errors)"]
        onset: int | None = None
        if fallen is not None:
            name, series, loss = fallen
            start = series.first.level.mean
            evidence.append(f"`{name}` fell by {-loss:.3g} from {start:.3g}")
            onset = series.since(series.smooth < (1 - LOST / 2) * start)
            risen = [
                f"`{other}` rose by {overall_rise(part)[0]:.3g}"
                for other, part in seen.parts.items()
                if other != name and overall_rise(part)[1] >= SURE
            ]
            evidence += risen
        if held_out is not None:
            name, series, best, loss = held_out
            evidence.append(
                f"held out, {name} fell by {-loss:.3g} from {series.values[best]:.3g} at step {series.steps[best]}"
            )
            onset = int(series.steps[best]) if onset is None else onset
        length = seen.series("completions/mean_length")
        if len(length) >= SHORTEST and abs(overall_rise(length)[1]) >= SURE:
            a, b = length.first.level.mean, length.last.level.mean
            evidence.append(f"the mean length went from {a:.0f} to {b:.0f} tokens")
        return self.found(
            "critical",
            onset,
            *evidence,
            patch=self._patch(seen, None if fallen is None else fallen[0]),
            figures={"gain": gain},
        )

    def _fallen_part(self, seen: Observations) -> tuple[str, Series, float] | None:
        if len(seen.parts) < 2:
            return None
        names = [seen.task_part] if seen.task_part is not None else list(seen.parts)
        for name in names:
            series = seen.parts[name]
            if len(series) < SHORTEST:
                continue
            loss, sure = overall_rise(series)
            if sure <= -SURE and -loss >= LOST * abs(series.first.level.mean):
                return name, series, loss
        return None

    def _fallen_held_out(self, seen: Observations) -> tuple[str, Series, int, float] | None:
        """A fall from the best evaluation to the level of the last two: series, place of the best, and the loss."""
        if seen.held_out is None or len(seen.held_out[1]) < 3:
            return None
        name, series = seen.held_out
        best, end = int(np.argmax(series.values[:-2])), float(np.median(series.values[-2:]))
        noise = float(np.median(np.abs(np.diff(series.values)))) if len(series) > 3 else 0.0
        # The best of n evaluations lies above the level by √(2 ln n) standard deviations by chance alone, the first one
        # does not.
        luck = math.sqrt(2 * math.log(len(series)))
        for place, errors in ((0, 2.0), (best, 2.0 + luck)):
            start = float(series.values[place])
            if start - end >= max(0.05 * max(abs(start), 1e-9), 0.03) and start - end > errors * noise:
                return name, series, best, end - float(series.values[best])
        return None

    def _patch(self, seen: Observations, fallen: str | None) -> dict[str, object] | None:
        if fallen is not None and len(seen.parts) > 1:
            patch = patches.reward_weights(seen, {name: 0.25 for name in seen.parts if name != fallen})
            if patch is not None:
                return patch
        beta = seen.setting("beta") or 0.0
        return {"grpo": {"beta": patches.rounded(max(2 * float(beta), 0.02))}}
