"""Completions are cut off by the length cap."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

TOLERATED = 0.10
"""Share of cut completions at which ScaleRL saw training destabilise (10–15 %; under 5 % in a good run)."""
GRAVE = 0.5


class Truncation(Rule):
    """Completions are cut off by the length cap."""

    id = "truncation"
    title = "Completions are cut off by the length cap"
    meaning = (
        "A completion that reaches `max_completion_length` is scored without its end, so that a right answer that "
        "comes late counts as wrong. Where nearly all are cut, no completion has a reward and nothing is learnt."
    )
    change = "Raise the cap; if no completion ever ends by itself, check the chat template and the end-of-text token."
    may_be = (
        "a model that never writes its end-of-text token (a chat template that does not fit): a higher cap does "
        "not help",
        "loops and repetitions, which fill any cap: read some completions",
    )
    config_key = "grpo.max_completion_length"
    reference = "ScaleRL (arXiv 2510.13786): truncation of 10–15 % destabilised training; DAPO, overlong filtering"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.series("completions/clipped_ratio")) < 3:
            return "the log holds no share of cut completions (completions/clipped_ratio)"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        clipped = seen.series("completions/clipped_ratio")
        level = clipped.last.level.mean
        over = clipped.smooth >= TOLERATED
        onset = clipped.since(over)
        if onset is None or level < TOLERATED:
            return None
        cap = self._cap(seen)
        evidence = [f"{level:.0%} of completions were cut off at the end, {TOLERATED:.0%} or more since step {onset}"]
        if cap is not None:
            evidence.append(
                f"the cap is {cap} tokens, mean length {seen.series('completions/mean_length').last.level.mean:.0f}"
            )
        ended = seen.series("completions/mean_terminated_length")
        if len(ended) and float(np.max(ended.values)) == 0:
            evidence.append("no completion ended by itself at any step")
        gradient, dead = seen.series("grad_norm"), seen.dead
        if level >= GRAVE and len(gradient) and float(np.max(np.abs(gradient.values))) == 0:
            evidence.append("the gradient was 0 throughout: no update has happened")
        elif level >= GRAVE and len(dead) and dead.last.level.mean > 0.9:
            evidence.append(f"{dead.last.level.mean:.0%} of groups had no spread of reward: nothing to learn from")
        return self.found(
            "critical" if level >= GRAVE else "warning",
            onset,
            *evidence,
            patch=None if cap is None else {"grpo": {"max_completion_length": 2 * cap}},
            figures={"clipped_ratio": level},
        )

    def _cap(self, seen: Observations) -> int | None:
        if seen.known("max_completion_length"):
            return int(seen.setting("max_completion_length"))
        longest = seen.series("completions/max_length")
        return int(np.max(longest.values)) if len(longest) else None
