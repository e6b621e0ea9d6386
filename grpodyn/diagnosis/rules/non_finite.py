"""NaN or Inf has entered the run."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

_WATCHED = ("grad_norm", "loss", "entropy", "kl")
_OF_PROBABILITIES = ("kl", "entropy", "sampling", "ppo_kl", "log")
_LOW_PRECISION = ("float16", "bfloat16")


class NonFiniteValues(Rule):
    """NaN or Inf has entered the run."""

    id = "non_finite"
    title = "NaN or Inf since some step"
    meaning = (
        "One step with NaN makes every weight NaN, and everything after it is lost. The loss curve hides it: a NaN "
        "loss is logged as 0, a NaN metric as null, while the gradient's norm keeps its NaN."
    )
    change = "Go back to the last finite checkpoint; store weights in float32, or lower the learning rate."
    may_be = ("a metric that is undefined for a batch (no completion ended, one completion a group)",)
    config_key = "model.dtype"
    reference = "TRL issues 6702, 6771: a NaN step logged as loss 0.0 with grad_norm nan (tried)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if not len(seen.steps):
            return "the log holds no row"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        named = {item.what: item.step for item in seen.non_finite if item.tensor is None and self._telling(item.what)}
        tensors = [item for item in seen.non_finite if item.tensor is not None]
        gone = self._gone(seen)
        starts = {**gone, **{what: min(step, gone.get(what, step)) for what, step in named.items()}}
        if "kl" in starts and seen.setting("beta") == 0 and len(starts) == 1 and not tensors:
            return None
        if not starts and not tensors:
            return None
        onset = min([*starts.values(), *(item.step for item in tensors)])
        first = sorted(name for name, step in starts.items() if step == onset)
        evidence = []
        if first:
            evidence.append(f"at step {onset} {', '.join(first)} ceased to be finite")
        if tensors:
            earliest = min(tensors, key=lambda item: item.step)
            evidence.append(f"the first tensor was {earliest.tensor} ({earliest.what}, step {earliest.step})")
        if first:
            evidence.append(self._where(first, bool(tensors)))
        loss = seen.series("loss")
        if len(loss) and (loss.values[loss.steps >= onset] == 0).all() and (loss.steps >= onset).any():
            evidence.append("the loss reads 0 since then: that is what a trainer writes in place of NaN")
        finite = seen.steps[seen.steps < onset]
        if len(finite):
            evidence.append(f"the last finite step is {int(finite.max())}: checkpoints after it are lost, stop now")
        patch = patches.rate(seen, 0.5)
        key = "grpo.learning_rate"
        if seen.dtype in _LOW_PRECISION:
            patch, key = {"model": {"dtype": "float32"}}, "model.dtype"
        return self.found("critical", onset, *evidence, patch=patch, config_key=key, figures={"step": float(onset)})

    def _telling(self, what: str) -> bool:
        return what in _WATCHED or what.startswith(("actor/", "reward", "policy", "gradient", "weight"))

    def _gone(self, seen: Observations) -> dict[str, int]:
        """Return, per watched column that ends without a value in rows that hold a loss, its first such row."""
        marks = ("loss", "reward", "completions/mean_length")
        held = [np.isfinite(seen.columns[name]) for name in marks if name in seen.columns]
        if not held:
            return {}
        live = np.flatnonzero(np.any(held, axis=0))
        found = {}
        for name in _WATCHED:
            if name not in seen.columns or name == "loss":
                continue
            here = np.isfinite(seen.columns[name][live])
            if here.size and here.any() and not here[-1]:
                last = np.flatnonzero(here)[-1]
                # Sparse logging leaves gaps of one kind; what has ended is gone for longer than any gap before.
                gaps = np.diff(np.flatnonzero(here))
                usual = int(gaps.max()) if gaps.size else 1
                if len(here) - 1 - last >= usual + (usual > 1):
                    found[name] = int(seen.steps[live[last + 1]])
        return found

    def _where(self, first: list[str], tensors: bool) -> str:
        probabilities = [name for name in first if any(word in name for word in _OF_PROBABILITIES)]
        if probabilities and len(probabilities) == len(first):
            return (
                "log-probabilities went first: weights were no longer finite before that step, here or in the sampler"
            )
        if "grad_norm" in first and not probabilities:
            return "the gradient went first: the loss of that batch was not finite (an overflow, an empty completion)"
        if tensors:
            return "log-probabilities and gradient went together"
        return "log-probabilities and gradient went at once: the log cannot tell which was first"
