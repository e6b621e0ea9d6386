"""The learning rate that goes with an advised adapter.

Under Adam with B = 0 at the start, the first step of ΔW has a size proportional to α·LR and independent of the rank,
when ΔW is scaled by α/r. rsLoRA scales by α/√r, which is α/r scaling with an α of α·√r.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpodyn.lora.modules import Plan

LOW_FACTOR, HIGH_FACTOR = 3.0, 10.0
"""LoRA learning rate over full fine-tuning's, at α = 32 with α/r scaling. 10 is the best factor reported; the lower end
is where advice starts."""
REFERENCE_ALPHA = 32


@dataclass(frozen=True)
class LearningRate:
    """Advised learning rate, and the range it was taken from; None where the run says nothing."""

    learning_rate: float | None
    low: float | None
    high: float | None
    basis: str


def effective_alpha(alpha: float, rank: int, rslora: bool) -> float:
    """Return the α that gives the same scaling under α/r.

    >>> effective_alpha(32, 16, rslora=False), effective_alpha(32, 16, rslora=True)
    (32, 128.0)
    """
    return alpha * math.sqrt(rank) if rslora else alpha


def _rounded(value: float) -> float:
    # A rate that was computed, not measured, needs no more digits, and then reads back from YAML as it was printed.
    return float(f"{value:.6g}")


def advise(recorded: float | None, lora: Mapping[str, Any] | None, plan: Plan, keep: bool = False) -> LearningRate:
    """Return the learning rate for `plan`, from that of the recorded run.

    Args:
        recorded: the run's learning rate, None if unknown.
        lora: the run's PEFT config, None if it trained all weights.
        plan: the advised adapter.
        keep: leave the learning rate as it is.
    """
    if recorded is None or not recorded > 0:
        return LearningRate(
            None, None, None, "the run's learning rate is not in its manifest; 10 × a full fine-tuning rate is usual"
        )
    if keep:
        return LearningRate(recorded, recorded, recorded, "left as it was (--keep-lr)")
    new = effective_alpha(plan.alpha, plan.rank, plan.method == "rslora")
    if lora is None:
        scale = REFERENCE_ALPHA / new
        low, high = _rounded(LOW_FACTOR * recorded * scale), _rounded(HIGH_FACTOR * recorded * scale)
        rescaled = "" if scale == 1 else f", divided by √{plan.rank} because rsLoRA scales by α/√r"
        return LearningRate(
            low,
            low,
            high,
            f"{LOW_FACTOR:g} to {HIGH_FACTOR:g} × the full run's {recorded:g} at alpha 32{rescaled}; 10 × is the best "
            "factor reported (LoRA Without Regret, second-hand), the advice starts at the low end",
        )
    alpha, rank = float(lora.get("lora_alpha") or 8), int(lora.get("r") or 8)
    old = effective_alpha(alpha, rank, bool(lora.get("use_rslora")))
    value = _rounded(recorded * old / new)
    return LearningRate(
        value, value, value, f"keeps the LoRA run's alpha × learning rate: {old:g} × {recorded:g} = {new:g} × {value:g}"
    )
