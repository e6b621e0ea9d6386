"""What is measured of a model during and after its training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import TrainerCallback

from grpodyn.attribution.evaluators import SampledRewards, Scored
from grpodyn.evaluation import TEMPERATURES, score_answers
from grpodyn.tasks import Examples

SAMPLES = (4, 16)
"""The k of pass@k."""


@dataclass(frozen=True)
class Measured:
    """Shares of prompts."""

    accuracy: float
    by_temperature: dict[float, float]
    """0 is greedy."""
    pass_at: dict[str, float]

    @property
    def best_temperature(self) -> float:
        """The lowest temperature of the highest accuracy."""
        known = {t: value for t, value in self.by_temperature.items() if not math.isnan(value)}
        return max(sorted(known), key=lambda t: known[t])


def measure(model: Any, tokenizer: Any, examples: Examples) -> Measured:
    """Return accuracies over the grid of temperatures, and pass@k = mean 1 − (1 − p)^k of the exact p at T=1."""
    scores = score_answers(model, tokenizer, examples.prompts, examples.answers, TEMPERATURES)
    probability = np.exp(scores.log_probability)
    at = {0.0: float(scores.greedy.mean())}
    at |= {t: float(p) for t, p in zip(scores.temperatures, probability.mean(axis=1), strict=True)}
    plain = probability[scores.temperatures.index(1.0)]
    return Measured(at[1.0], at, {str(k): float(np.mean(1 - (1 - plain) ** k)) for k in SAMPLES})


SAMPLED_TEMPERATURES = (0.3, 0.7, 1.0)
"""Where the base is sampled, where accuracy is not exact: what a temperature alone gives, at three times the cost."""


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled and scored where the right answer has no one spelling."""

    rewards: Scored
    samples: int
    max_new_tokens: int


def measure_sampled(
    model: Any, tokenizer: Any, examples: Examples, sampling: Sampling, temperatures: tuple[float, ...] = (1.0,)
) -> Measured:
    """Return mean rewards of sampled completions; greedy accuracy is nan, the random numbers are always the same.

    pass@k is the share of prompts of which one of the k samples is rewarded, where rewards are 0 or 1.
    """
    at: dict[float, float] = {0.0: math.nan}
    plain = np.zeros(0)
    for temperature in temperatures:
        evaluator = SampledRewards(
            model, tokenizer, sampling.rewards, sampling.samples, sampling.max_new_tokens, temperature
        )
        values = evaluator.outcomes(examples).value
        at[temperature] = float(values.mean())
        plain = values if temperature == 1.0 else plain
    counts = plain * sampling.samples
    counted = bool(np.all((counts >= 0) & (counts <= sampling.samples) & (np.abs(counts - np.rint(counts)) < 1e-9)))
    pass_at = {str(sampling.samples): float(np.mean(plain > 0))} if counted else {}
    return Measured(at[1.0], at, pass_at)


class Curve(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Accuracy at T=1 every few steps and at the last one."""

    def __init__(self, every: int, accuracy: Callable[[Any], float]) -> None:
        self.points: list[tuple[int, float]] = []
        self._every = every
        self._accuracy = accuracy

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure if it is time to."""
        if state.global_step % self._every == 0 or state.global_step >= state.max_steps:
            self.points.append((state.global_step, self._accuracy(model)))
