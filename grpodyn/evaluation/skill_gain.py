"""Has training taught something, or only made the model surer? Tuned against the base cooled to the same entropy.

A run that lowers entropy raises accuracy at T=1 wherever the base's likeliest answer is right. So the base is sampled
at the temperature at which its mean token entropy is the tuned model's, and only what the tuned model has above that
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpodyn.errors import ConfigError
from grpodyn.evaluation.accuracy import TEMPERATURES, HeldOutAccuracy, held_out_accuracy
from grpodyn.evaluation.token_entropy import token_entropy
from grpodyn.tasks.task import Examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LOWEST, HIGHEST = 0.02, 8.0
"""Temperatures between which a match is sought; a model's entropy is next to nothing at the first, and near its
ceiling at the second."""

TOLERANCE = 0.005
"""A match is close enough when the entropies differ by no more nats a token than this."""


@dataclass(frozen=True)
class EntropyMatch:
    """The temperature at which a model's mean token entropy comes closest to a wanted one."""

    temperature: float
    entropy: float
    """Nats a token at that temperature."""
    wanted: float

    @property
    def reached(self) -> bool:
        """Whether the entropies agree; they do not where no temperature in the range gives the wanted one."""
        return abs(self.entropy - self.wanted) <= 2 * TOLERANCE


@dataclass(frozen=True)
class SkillGain:
    """A tuned model beside its base; every accuracy is a share of the same prompts."""

    base: HeldOutAccuracy
    """At every temperature of the grid, and at the matched one."""
    tuned: HeldOutAccuracy
    match: EntropyMatch
    """Of the base, to the tuned model's entropy at T=1."""

    @property
    def base_matched(self) -> float:
        """Accuracy of the base at the matched temperature."""
        return self.base.by_temperature[self.match.temperature]

    @property
    def skill_gain(self) -> float:
        """Tuned at T=1 minus the base at the matched temperature."""
        return self.tuned.accuracy - self.base_matched

    @property
    def greedy_gain(self) -> float:
        """Tuned minus base, both greedily: what no temperature of either has to do with."""
        return self.tuned.greedy - self.base.greedy

    @property
    def gain(self) -> float:
        """Tuned minus base, both at T=1."""
        return self.tuned.accuracy - self.base.accuracy

    def metrics(self) -> dict[str, float]:
        """Return the numbers of a table row."""
        return {
            "base": self.base.accuracy,
            "base_greedy": self.base.greedy,
            "base_best": self.base.best,
            "base_best_temperature": self.base.best_temperature,
            "base_matched": self.base_matched,
            "matched_temperature": self.match.temperature,
            "matched_entropy": self.match.entropy,
            "tuned": self.tuned.accuracy,
            "tuned_greedy": self.tuned.greedy,
            "tuned_entropy": self.match.wanted,
            "gain": self.gain,
            "greedy_gain": self.greedy_gain,
            "skill_gain": self.skill_gain,
        }


def match_temperature(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    entropy: float,
    *,
    max_new_tokens: int,
    samples: int = 4,
    seed: int = 0,
) -> EntropyMatch:
    """Return the temperature at which the model's mean token entropy is `entropy` nats, by bisection.

    Every temperature is tried with the same random numbers. Where even the ends of the range do not reach the wanted
    entropy, the nearer end is returned, and `reached` is false.

    Args:
        model: a causal language model of transformers, PEFT-wrapped or not.
        tokenizer: its tokenizer.
        prompts: what it is asked.
        entropy: nats a token, ≥ 0.
        max_new_tokens: where a completion is cut off.
        samples: completions a prompt.
        seed: of the sampling; torch's global random state is left as it was.

    Raises:
        ConfigError: the entropy is negative, or as `token_entropy`.
    """
    if not entropy >= 0:
        raise ConfigError(f"an entropy of {entropy} nats cannot be matched; expected at least 0")

    def at(temperature: float) -> EntropyMatch:
        measured = token_entropy(
            model, tokenizer, prompts, temperature, max_new_tokens=max_new_tokens, samples=samples, seed=seed
        )
        return EntropyMatch(temperature, measured, entropy)

    low, high = at(LOWEST), at(HIGHEST)
    if entropy <= low.entropy:
        return low
    if entropy >= high.entropy:
        return high
    # In the logarithm, as a temperature is a factor.
    for _ in range(24):
        middle = at((low.temperature * high.temperature) ** 0.5)
        if abs(middle.entropy - entropy) <= TOLERANCE:
            return middle
        low, high = (middle, high) if middle.entropy < entropy else (low, middle)
    return min(low, high, key=lambda match: abs(match.entropy - entropy))


def skill_gain(
    base: Any,
    tuned: Any,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    *,
    max_new_tokens: int,
    entropy_prompts: int = 256,
    samples: int = 4,
    seed: int = 0,
    temperatures: Sequence[float] = TEMPERATURES,
) -> SkillGain:
    """Return what the tuned model can do beyond its base, cooled or heated to the tuned model's entropy.

    Accuracies are exact on all of `examples`; entropies are sampled, on the first `entropy_prompts` of them.

    Args:
        base: the model before training.
        tuned: the model after it; its entropy is taken at T=1, as it is sampled in training.
        tokenizer: of both.
        examples: held-out prompts with their right answers.
        max_new_tokens: where a completion is cut off; what training used.
        entropy_prompts: how many prompts entropy is measured on.
        samples: completions a prompt, for entropy.
        seed: of that sampling.
        temperatures: the grid for the best temperature.

    Raises:
        ConfigError: as `score_answers` and `token_entropy`.
    """
    prompts = examples.head(entropy_prompts).prompts
    sampling = {"max_new_tokens": max_new_tokens, "samples": samples, "seed": seed}
    wanted = token_entropy(tuned, tokenizer, prompts, 1.0, **sampling)
    match = match_temperature(base, tokenizer, prompts, wanted, **sampling)
    of_base = held_out_accuracy(base, tokenizer, examples, [*temperatures, match.temperature])
    return SkillGain(of_base, held_out_accuracy(tuned, tokenizer, examples, temperatures), match)
