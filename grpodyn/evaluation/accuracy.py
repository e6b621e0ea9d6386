"""Held-out accuracy, and the base's best temperature as the baseline that training has to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.evaluation.answer_scores import AnswerScores, score_answers
from grpodyn.evaluation.records import ACCURACY, BEST_TEMPERATURE, BEST_TEMPERATURE_ACCURACY, GREEDY, PASS_AT
from grpodyn.tasks.task import Examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPERATURES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0)
"""The grid over which a model's best temperature is sought; greedy decoding counts as temperature 0."""

TRIES = (2, 4, 8, 16)
"""The k of pass@k; pass@1 is the accuracy."""


@dataclass(frozen=True)
class HeldOutAccuracy:
    """Accuracy on held-out prompts at every temperature of a grid; all are shares of `n` prompts."""

    n: int
    """Number of prompts."""
    by_temperature: Mapping[float, float]
    """Mean exact probability of the right answer; 0.0 is greedy, 1.0 is the model as it is sampled in training."""
    pass_at: Mapping[int, float] = field(default_factory=dict)
    """Mean exact chance that at least one of k samples at temperature 1 is right. What only sharpens a model raises
    pass@1 and lowers this."""

    @property
    def accuracy(self) -> float:
        """At T=1."""
        return self.by_temperature[1.0]

    @property
    def greedy(self) -> float:
        """At T=0."""
        return self.by_temperature[0.0]

    @property
    def best_temperature(self) -> float:
        """The temperature of the highest accuracy, the lowest such."""
        return max(sorted(self.by_temperature), key=lambda t: self.by_temperature[t])

    @property
    def best(self) -> float:
        """Accuracy at the best temperature."""
        return self.by_temperature[self.best_temperature]

    def metrics(self) -> dict[str, float]:
        """Return the numbers as a row of the `evaluations` group takes them."""
        return {
            ACCURACY: self.accuracy,
            GREEDY: self.greedy,
            BEST_TEMPERATURE: self.best_temperature,
            BEST_TEMPERATURE_ACCURACY: self.best,
            **{f"{PASS_AT}{k}": chance for k, chance in self.pass_at.items()},
        }


def _accuracies(scores: AnswerScores) -> dict[float, float]:
    sampled = np.exp(scores.log_probability).mean(axis=1)
    at = {0.0: float(scores.greedy.mean())}
    return at | {t: float(p) for t, p in zip(scores.temperatures, sampled, strict=True)}


def held_out_accuracy(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    temperatures: Sequence[float] = TEMPERATURES,
    batch_size: int = 256,
) -> HeldOutAccuracy:
    """Return the accuracy on `examples` greedily, at T=1 and at every temperature of the grid, from one pass.

    A model that training has only made more confident gains nothing over its base at the base's best temperature.

    Raises:
        ConfigError: as `score_answers`.
    """
    grid = sorted({1.0, *temperatures} - {0.0})
    scores = score_answers(model, tokenizer, examples.prompts, examples.answers, grid, batch_size)
    wrong = -np.expm1(scores.log_probability[scores.temperatures.index(1.0)])
    pass_at = {k: float(np.mean(1 - wrong**k)) for k in TRIES}
    return HeldOutAccuracy(n=len(examples), by_temperature=_accuracies(scores), pass_at=pass_at)


def exact_accuracy(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    answers: Sequence[str],
    temperature: float = 1.0,
    batch_size: int = 256,
) -> float:
    """Return the expected share of prompts answered exactly right when sampling at `temperature` (0 is greedy).

    Raises:
        ConfigError: as `score_answers`.
    """
    if temperature == 0:
        return greedy_accuracy(model, tokenizer, prompts, answers, batch_size)
    scores = score_answers(model, tokenizer, prompts, answers, (temperature,), batch_size)
    return _accuracies(scores)[temperature]


def greedy_accuracy(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    answers: Sequence[str],
    batch_size: int = 256,
) -> float:
    """Return the share of prompts that greedy decoding answers exactly right.

    Raises:
        ConfigError: as `score_answers`.
    """
    return _accuracies(score_answers(model, tokenizer, prompts, answers, (1.0,), batch_size))[0.0]
