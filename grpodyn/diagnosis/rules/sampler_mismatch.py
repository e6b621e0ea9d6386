"""The sampler's probabilities are not the trainer's."""

from __future__ import annotations

import math

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule
from grpodyn.diagnosis.series import Series

RATIO = 0.9
"""Mean importance ratio under which updates are noticeably shrunk."""
DIFFERENCE = 0.1
"""Mean difference of log-probabilities, nats a token, that is more than rounding."""
_RATIO = "sampling/importance_sampling_ratio/mean"
_DIFFERENCE = "sampling/sampling_logp_difference/mean"


class SamplerMismatch(Rule):
    """The sampler's probabilities are not the trainer's."""

    id = "sampler_mismatch"
    title = "Sampler and trainer disagree on probabilities"
    meaning = (
        "Completions are sampled by one program and scored by another. Where their log-probabilities differ, "
        "training is off-policy without saying so; a correction multiplies each token by its importance ratio, and "
        "a low mean ratio shrinks the updates."
    )
    change = "Sample with top_p 1 and top_k off, the same dtype on both sides, and the correction on."
    may_be = (
        "nucleus or top-k sampling: the sampler then renormalises, and log-probabilities are off by the mass it kept",
        "another temperature on the two sides",
    )
    config_key = "grpo.top_p"
    reference = "TRL logs the ratio after clipping; nothing is said here about raw ratios (TRL issues 4772, 6789)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if max(len(seen.series(_RATIO)), len(seen.series(_DIFFERENCE))) < 5:
            return "the log compares no probabilities of sampler and trainer (sampling/…)"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        ratio, difference = seen.series(_RATIO), seen.series(_DIFFERENCE)
        low = ratio.last.level.mean if len(ratio) >= 5 else math.nan
        far = difference.last.level.mean if len(difference) >= 5 else math.nan
        off = low < RATIO or low > 1 / RATIO
        if not (off or far > DIFFERENCE):
            return None
        evidence = []
        if off:
            how = "shrinks" if low < 1 else "swells"
            evidence.append(
                f"the mean importance ratio, as logged after clipping, is {low:.2f}, which {how} the updates"
            )
        if far > DIFFERENCE:
            evidence.append(f"log-probabilities differ by {far:.2g} nats a token on average")
        top_p = seen.settings.get("top_p")
        patch: dict[str, object] = {"grpo": {"vllm_importance_sampling_correction": True}}
        if isinstance(top_p, int | float) and top_p < 1:
            evidence.append(f"top_p is {top_p}: the sampler renormalises")
            patch = {"grpo": {"top_p": 1.0}}
        onset = self._onset(ratio, off, low) or self._onset(difference, far > DIFFERENCE, far)
        return self.found("warning", onset, *evidence, patch=patch, figures={"ratio": low, "difference": far})

    def _onset(self, series: Series, holds: bool, level: float) -> int | None:
        if not holds:
            return None
        return series.since(series.smooth < RATIO if level < 1 and level < RATIO else series.smooth > DIFFERENCE)
