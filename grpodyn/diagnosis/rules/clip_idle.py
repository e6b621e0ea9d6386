"""The clip fraction is 0 because nothing can be clipped."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

_CLIPS = ("clip_ratio/region_mean", "clip_ratio/high_mean", "clip_ratio/low_mean")
_ROWS = 10


class ClipIdle(Rule):
    """The clip fraction is 0 because nothing can be clipped."""

    id = "clip_idle"
    title = "The clip fraction is 0 by construction"
    meaning = (
        "With one update for each batch of completions the ratio of new to old probabilities is 1, so that nothing "
        "is ever clipped: a clip fraction of 0 says nothing about stability, and `epsilon` and `epsilon_high` do "
        "nothing."
    )
    change = "Nothing, unless clipping is wanted: then `num_iterations` of 2 or more."
    may_be = ("several updates a batch that are too small to reach the clip",)
    config_key = "grpo.num_iterations"
    reference = "ratio = π/π_old = 1 where π_old is the policy that is updated (arXiv 2402.03300)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if max(len(seen.series(name)) for name in _CLIPS) < _ROWS:
            return "the log holds no clip fraction"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        series = [seen.series(name) for name in _CLIPS]
        if any(len(s) and float(np.max(np.abs(s.values))) > 0 for s in series):
            return None
        rows = max(len(s) for s in series)
        known = seen.known("num_iterations")
        iterations = int(seen.setting("num_iterations"))
        if known and iterations > 1:
            return None
        batches = seen.settings.get("steps_per_generation")
        accumulation = int(seen.setting("gradient_accumulation_steps"))
        if isinstance(batches, int) and batches > accumulation:
            return None
        higher = seen.settings.get("epsilon_high")
        evidence = [f"the clip fraction is exactly 0 in all {rows} rows"]
        evidence.append(
            "num_iterations is 1: each batch is used for one update" if known else "as with one update a batch"
        )
        if higher is not None:
            evidence.append(f"epsilon_high is {higher}, which has no effect then")
        patch = {"grpo": {"num_iterations": 2}} if higher is not None else None
        return self.found("info", None, *evidence, patch=patch, figures={"rows": float(rows)})
