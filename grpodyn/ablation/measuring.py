"""What is measured of a model during and after its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import TrainerCallback

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
        return max(sorted(self.by_temperature), key=lambda t: self.by_temperature[t])


def measure(model: Any, tokenizer: Any, examples: Examples) -> Measured:
    """Return accuracies over the grid of temperatures, and pass@k = mean 1 − (1 − p)^k of the exact p at T=1."""
    scores = score_answers(model, tokenizer, examples.prompts, examples.answers, TEMPERATURES)
    probability = np.exp(scores.log_probability)
    at = {0.0: float(scores.greedy.mean())}
    at |= {t: float(p) for t, p in zip(scores.temperatures, probability.mean(axis=1), strict=True)}
    plain = probability[scores.temperatures.index(1.0)]
    return Measured(at[1.0], at, {str(k): float(np.mean(1 - (1 - plain) ** k)) for k in SAMPLES})


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
