"""How well the live weights do on prompts: the interface, and transformers behind it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpodyn import rewards
from grpodyn.attribution.asking import Outcomes
from grpodyn.config.batching import TRL_DEFAULTS
from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError
from grpodyn.evaluation import score_answers
from grpodyn.evaluation.answer_scores import end_tokens, evaluating
from grpodyn.evaluation.generation import generation
from grpodyn.naming.canonical import canonical_name
from grpodyn.rewards import RewardFunction
from grpodyn.tasks import Examples

MIN_SAMPLES = 4
"""Completions a prompt, at the least, where probabilities are estimated by sampling."""


class Evaluator(Protocol):
    """One live engine: weights are pushed into it, and it is asked how it does."""

    name: str
    """What it measures, and with which settings: part of what an outcome is remembered under."""

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace weights (or their first rows) by canonical name."""
        ...

    def outcomes(self, examples: Examples) -> Outcomes:
        """Return the outcome of each prompt under the live weights."""
        ...

    def tokens(self, examples: Examples) -> int:
        """Return how many tokens one evaluation of these prompts processes, about."""
        ...


@dataclass(frozen=True)
class Scored:
    """Reward functions with their weights, as training summed them."""

    functions: tuple[tuple[RewardFunction, float], ...]

    @classmethod
    def of_config(cls, config: RunConfig, model: Any, tokenizer: Any) -> Scored:
        """Return the rewards of a run.

        Raises:
            ConfigError, UnknownNameError: there is no such reward, or its options are wrong.
        """
        longest = config.grpo.get("max_completion_length", TRL_DEFAULTS["max_completion_length"])
        context = rewards.RewardContext(tuple(end_tokens(model, tokenizer)), int(longest))
        return cls(tuple((rewards.reward(r.name, r.options, context, r.label), r.weight) for r in config.rewards))

    @property
    def name(self) -> str:
        """What a completion is worth, such that another reward, other options or other code have another name."""
        return "+".join(f"{weight:g}·{_described(function)}" for function, weight in self.functions)

    def rewards(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        answers: Sequence[str],
        completion_ids: Sequence[Sequence[int]] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> NDArray[np.float64]:
        """Return the weighted sum of all rewards of each completion.

        Args:
            prompts: one a completion.
            completions: their text.
            answers: right answers, one a completion.
            completion_ids: tokens of each completion, its end token last if it has one.
            columns: what else the rewards read, one a completion; with `prompt`, conversations in place of `prompts`.

        Raises:
            ConfigError: a reward function returns something else than one number a completion.
        """
        total = np.zeros(len(prompts))
        given: dict[str, Any] = {"prompts": list(prompts), "completions": list(completions), "answer": list(answers)}
        given |= {name: list(values) for name, values in (columns or {}).items()}
        if "prompt" in given:
            given["prompts"] = given.pop("prompt")
            given["completions"] = [[{"role": "assistant", "content": text}] for text in completions]
        if completion_ids is not None:
            given["completion_ids"] = [list(ids) for ids in completion_ids]
        for function, weight in self.functions:
            try:
                found = function(**given)
            except TypeError as error:
                raise ConfigError(
                    f"the reward {getattr(function, '__name__', function)!r} cannot be called on held-out prompts with "
                    f"{', '.join(given)} alone: {error}"
                ) from error
            # TRL takes None for a reward that does not apply.
            values = np.array([0.0 if value is None else float(value) for value in found])
            if values.shape != total.shape:
                raise ConfigError(
                    f"the reward {getattr(function, '__name__', function)!r} returned {values.size} numbers for "
                    f"{total.size} completions"
                )
            total += weight * values
        return total

    def of_prompts(
        self, examples: Examples, completions: Sequence[str], ids: Sequence[Sequence[int]], samples: int
    ) -> NDArray[np.float64]:
        """Return the mean reward of each prompt over its samples, which lie side by side."""
        asked = examples.repeated(samples)
        return per_prompt(self.rewards(asked.prompts, completions, asked.answers, ids, asked.columns), samples)


def per_prompt(rewards: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return the mean over the samples of each prompt; samples of one prompt lie side by side.

    >>> per_prompt(np.array([1.0, 0.0, 0.5, 0.5]), 2)
    array([0.5, 0.5])
    """
    means: NDArray[np.float64] = rewards.reshape(-1, samples).mean(axis=1)
    return means


class TransformersModel:
    """A model of transformers, whose weights are replaced in place."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._parameters: Mapping[str, Tensor] = {
            canonical_name(name): parameter for name, parameter in model.named_parameters()
        }

    @torch.no_grad()
    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy values into the live parameters."""
        for name, value in weights:
            self._parameters[name][: value.shape[0]].copy_(value)


class ExactAnswers(TransformersModel):
    """The exact probability of the right answer, by teacher forcing: no sampling noise."""

    def __init__(self, model: Any, tokenizer: Any, temperature: float = 1.0, batch_size: int = 256) -> None:
        super().__init__(model)
        self._tokenizer = tokenizer
        self._temperature = temperature
        self._batch_size = batch_size
        self.name = f"exact answer probability, T={temperature:g}, {model.dtype}"

    def outcomes(self, examples: Examples) -> Outcomes:
        """Return P(answer | prompt) of each prompt, and the share that greedy decoding answers right."""
        scores = score_answers(
            self.model, self._tokenizer, examples.prompts, examples.answers, (self._temperature,), self._batch_size
        )
        return Outcomes(np.exp(scores.log_probability[0]), float(scores.greedy.mean()))

    def tokens(self, examples: Examples) -> int:
        """Return the tokens of prompts and answers."""
        texts = [p + a for p, a in zip(examples.prompts, examples.answers, strict=True)]
        return sum(len(ids) for ids in self._tokenizer(texts)["input_ids"])


class SampledRewards(TransformersModel):
    """Mean reward of k sampled completions a prompt."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        scored: Scored,
        samples: int = MIN_SAMPLES,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        batch_size: int = 64,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_samples(samples)
        self._tokenizer, self._scored = tokenizer, scored
        self._samples, self._length, self._temperature = samples, max_new_tokens, temperature
        self._batch_size, self._seed = batch_size, seed
        self._ends = end_tokens(model, tokenizer)
        settings = f"mean of {samples} samples, T={temperature:g}, {max_new_tokens} tokens, seed {seed}"
        # Which random numbers a prompt gets depends on what it shares a batch with, and on the device.
        drawn = f"batches of {batch_size} on {model.device.type}"
        self.name = f"{settings}, {drawn}, {scored.name}, {model.dtype}"

    def outcomes(self, examples: Examples) -> Outcomes:
        """Return the mean reward of each prompt; every state draws from the same random numbers."""
        completions: list[str] = []
        ids: list[list[int]] = []
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(self._seed)
            for start in range(0, len(examples), self._batch_size):
                part = examples.prompts[start : start + self._batch_size]
                texts, tokens = self._generate(part, special_tokens=not examples.templated)
                completions += texts
                ids += tokens
        return Outcomes(self._scored.of_prompts(examples, completions, ids, self._samples))

    def tokens(self, examples: Examples) -> int:
        """Return the tokens of prompts and of completions at full length."""
        return sum(len(i) for i in self._tokenizer(list(examples.prompts))["input_ids"]) + (
            len(examples) * self._samples * self._length
        )

    def _generate(self, prompts: Sequence[str], special_tokens: bool = True) -> tuple[list[str], list[list[int]]]:
        inputs = self._tokenizer(
            list(prompts), return_tensors="pt", padding=True, padding_side="left", add_special_tokens=special_tokens
        )
        inputs = inputs.to(self.model.device)
        pad = self._tokenizer.pad_token_id
        settings = generation(self._temperature, self._length, self._ends, pad)
        settings.num_return_sequences = self._samples
        with evaluating(self.model):
            generated = self.model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=settings
            )
        new = generated[:, inputs["input_ids"].shape[1] :]
        texts: list[str] = self._tokenizer.batch_decode(new, skip_special_tokens=True)
        return texts, [_ended(ids, self._ends) for ids in new.tolist()]


def _ended(ids: list[int], ends: Sequence[int]) -> list[int]:
    """Return the tokens up to the first that ends the completion.

    >>> _ended([5, 6, 1, 0, 0], [1]), _ended([5, 6], [1])
    ([5, 6, 1], [5, 6])
    """
    stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
    return ids[: stop + 1]


def _described(function: Any) -> str:
    """Return a reward's name, its options, and the begin of a digest of the code that it comes from."""
    options: dict[str, Any] = {}
    inner = function
    # A reward with its options, a `functools.partial`, a decorated function.
    while (
        wrapped := next((getattr(inner, a) for a in ("func", "__wrapped__") if hasattr(inner, a)), None)
    ) is not None:
        given = getattr(inner, "options", None) or getattr(inner, "keywords", None) or {}
        options = {**{str(i): value for i, value in enumerate(getattr(inner, "args", ()))}, **given, **options}
        inner = wrapped
    name = getattr(function, "__name__", None) or getattr(inner, "__name__", type(inner).__name__)
    said = json.dumps(options, sort_keys=True, default=repr, ensure_ascii=False) if options else ""
    return f"{name}{said}#{_code(inner)[:12]}"


def _code(function: Any) -> str:
    """Return a digest of what a function is: the file that it stands in, as it may call what stands beside it."""
    owner = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    named = f"{owner.__module__}.{owner.__qualname__}".encode()
    try:
        content = Path(inspect.getsourcefile(owner) or "").read_bytes()
    except (TypeError, OSError):
        code = getattr(owner, "__code__", None)
        content = repr((code.co_code, code.co_consts, code.co_names) if code is not None else owner).encode()
    return hashlib.sha256(named + content).hexdigest()


def check_samples(samples: int) -> None:
    """Check that a prompt's luck can be told from its difficulty.

    Raises:
        ConfigError: too few samples.
    """
    if samples < MIN_SAMPLES:
        raise ConfigError(
            f"{samples} samples a prompt: at least {MIN_SAMPLES} are needed to tell a prompt's luck from its difficulty"
        )
