"""Completions grow or shrink without the reward gaining from it."""

from __future__ import annotations

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import SHORTEST, Series, overall_rise, rise

GROWN, SHRUNK = 1.5, 0.6
SURE = 5.0
NO_GAIN = 3.0
"""Standard errors of the reward's rise under which the reward has not gained."""


class LengthDrift(Rule):
    """Completions grow or shrink without the reward gaining from it."""

    id = "length_drift"
    title = "Completions grow or shrink without a gain"
    meaning = (
        "A loss that divides by the length of a completion punishes long wrong answers less than short ones, so that "
        "wrong answers grow; a reward for brevity, or a format that is soon filled, makes all shrink."
    )
    change = "Use a loss without the division by length (`dr_grpo`, `dapo`), or a soft penalty on overlong answers."
    may_be = ("a model that learns to reason at length: then right completions grow and the reward with them",)
    config_key = "grpo.loss_type"
    reference = "Dr. GRPO (arXiv 2503.20783): wrong completions grow under the 1/|o| term"
    follows_from = ("truncation", "reward_hacking")

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("completions/mean_length")) < SHORTEST:
            return f"the log holds fewer than {SHORTEST} rows with a mean length (completions/mean_length)"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        groups = seen.groups
        if groups is not None and len(groups.length_wrong) >= SHORTEST:
            wrong, right = groups.length_wrong, groups.length_right
            grown = wrong.last.level.mean / max(wrong.first.level.mean, 1e-9)
            beside = right.last.level.mean / max(right.first.level.mean, 1e-9)
            if grown >= GROWN and rise(wrong.first, wrong.last)[1] >= SURE and grown >= 1.3 * beside:
                return self._report(
                    seen,
                    wrong,
                    grown,
                    f"wrong completions grew {grown:.1f} × (to {wrong.last.level.mean:.0f} tokens), right ones "
                    f"{beside:.1f} ×",
                )
        length = seen.series("completions/mean_length")
        ratio = length.last.level.mean / max(length.first.level.mean, 1e-9)
        sure = overall_rise(length)[1]
        gained = len(seen.reward) >= SHORTEST and overall_rise(seen.reward)[1] >= NO_GAIN
        drifted = (ratio >= GROWN and sure >= SURE) or (ratio <= SHRUNK and sure <= -SURE)
        if not drifted or gained or seen.mastered:
            return None
        word = "grew" if ratio > 1 else "shrank"
        known = "" if groups is not None else "; right and wrong ones apart need recorded rollouts"
        return self._report(
            seen,
            length,
            ratio,
            f"the mean length {word} from {length.first.level.mean:.0f} to {length.last.level.mean:.0f} tokens "
            f"({ratio:.1f} ×) while the reward did not rise{known}",
        )

    def _report(self, seen: Observations, series: Series, ratio: float, sentence: str) -> Finding:
        start = series.first.level.mean
        halfway = start * (1 + (ratio - 1) / 2)
        onset = series.since(series.smooth >= halfway if ratio > 1 else series.smooth <= halfway)
        loss = seen.settings.get("loss_type")
        evidence = [sentence]
        if loss == "grpo":
            evidence.append("the loss is `grpo`, which divides by each completion's length")
        beta = patches.rounded(max(2 * float(seen.setting("beta") or 0.0), 0.02))
        patch: dict[str, object] = {"grpo": {"loss_type": "dr_grpo"}}
        if loss in ("dr_grpo", "dapo"):
            patch = {"grpo": {"mask_truncated_completions": True}} if ratio > 1 else {"grpo": {"beta": beta}}
        return self.found("warning", onset, *evidence, patch=patch, figures={"ratio": ratio})
