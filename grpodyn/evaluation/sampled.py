"""Accuracy by sampling, for tasks whose right completions are not one text: greedy, pass@1 and pass@k apart."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import end_tokens, evaluating
from grpodyn.evaluation.generation import generation
from grpodyn.evaluation.records import ACCURACY, ENDED, GREEDY, LENGTH, PASS_AT, TRUNCATED
from grpodyn.groups.resampling import chance_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompt = str | Sequence[Mapping[str, Any]]
"""Text, or the messages of a conversation."""

TRIES = (2, 4, 8, 16, 32, 64)
"""The k of pass@k, as far as there are so many samples; pass@1 is the accuracy."""

RIGHT = 1.0 - 1e-9
"""A completion is right if its judge gives it 1 (or more): a judge that gives parts of it says how near it was."""


def pass_at_k(samples: int, right: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return unbiased estimates of the chance that at least one of k samples of a prompt is right.

    pass@k = 1 − C(n − c, k) / C(n, k), with c right ones among n samples.

    Args:
        samples: n, at least k.
        right: (prompts,): c of each prompt.
        k: samples that somebody may draw.

    Returns:
        (prompts,), between 0 and 1.

    Raises:
        UsageError: k is larger than n.

    Reference:
        Chen et al. 2021, arXiv 2107.03374, equation 1.

    >>> pass_at_k(4, np.array([0, 1, 2, 4]), 2).round(4).tolist()
    [0.0, 0.5, 0.8333, 1.0]
    """
    return 1 - chance_all(samples - right, samples, k)


@dataclass(frozen=True)
class SampledAccuracy:
    """What a model's completions of held-out prompts were."""

    prompts: int
    samples: int
    """Of each prompt."""
    greedy: float
    """Share of prompts that greedy decoding completes rightly."""
    right: NDArray[np.int64]
    """(prompts,): right samples of each."""
    truncated: float
    """Share of samples that were cut off before they ended."""
    length: float
    """Mean tokens of a sample, its end token included."""

    @property
    def accuracy(self) -> float:
        """pass@1, the mean over prompts and samples."""
        return float(self.right.mean() / self.samples)

    def metrics(self) -> dict[str, float]:
        """Return the numbers as a row of the `evaluations` group takes them."""
        tries = [k for k in TRIES if k <= self.samples]
        return {
            ACCURACY: self.accuracy,
            GREEDY: self.greedy,
            TRUNCATED: self.truncated,
            ENDED: 1 - self.truncated,
            LENGTH: self.length,
            **{f"{PASS_AT}{k}": float(pass_at_k(self.samples, self.right, k).mean()) for k in tries},
        }


@dataclass(frozen=True)
class Completed:
    """One completion."""

    ids: tuple[int, ...]
    """Its end token included, if it has one."""
    ended: bool
    """Whether it ended before it was cut off."""


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn: as in training, nothing cut off the distribution."""

    temperature: float = 1.0
    max_new_tokens: int = 512
    batch_size: int = 256
    """Completions at a time."""
    seed: int = 0
    template: Mapping[str, Any] | None = None
    """More arguments of the chat template."""


def sampled_accuracy(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    columns: Mapping[str, Sequence[Any]],
    judge: Callable[..., Any],
    samples: int,
    sampling: Sampling,
) -> SampledAccuracy:
    """Return what a model makes of prompts: greedily, and in `samples` samples of each.

    Args:
        model: a causal language model of transformers, PEFT-wrapped or not; its training modes are left as they were.
        tokenizer: its tokenizer.
        prompts: text, or conversations, which the tokenizer's chat template renders as in training.
        columns: of each prompt, what the judge reads, such as `answer`.
        judge: a reward function; a completion to which it gives 1 is right.
        samples: of each prompt.
        sampling: how they are drawn; torch's global random state is left as it was.

    Raises:
        ConfigError: there are no prompts, or nothing can end a completion.
    """
    if not prompts:
        raise ConfigError("there are no prompts to measure accuracy on; give at least one")
    encoded = [_encode(prompt, tokenizer, sampling) for prompt in prompts]
    greedy = list(_complete(model, tokenizer, encoded, None, sampling))
    order = np.repeat(np.arange(len(prompts)), samples)
    drawn = list(_complete(model, tokenizer, [encoded[i] for i in order], sampling.temperature, sampling))
    greedily = _judged(judge, tokenizer, prompts, columns, np.arange(len(prompts)), greedy)
    right = _judged(judge, tokenizer, prompts, columns, order, drawn).reshape(len(prompts), samples)
    return SampledAccuracy(
        prompts=len(prompts),
        samples=samples,
        greedy=float(greedily.mean()),
        right=right.sum(1).astype(np.int64),
        truncated=float(np.mean([not one.ended for one in drawn])),
        length=float(np.mean([len(one.ids) for one in drawn])),
    )


def _encode(prompt: Prompt, tokenizer: Any, sampling: Sampling) -> list[int]:
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    text = tokenizer.apply_chat_template(
        list(prompt), tokenize=False, add_generation_prompt=True, **(sampling.template or {})
    )
    # The template has written the special tokens.
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _complete(
    model: Any, tokenizer: Any, encoded: Sequence[list[int]], temperature: float | None, sampling: Sampling
) -> Iterator[Completed]:
    import torch  # the package is importable without torch

    ends = end_tokens(model, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    settings = generation(temperature, sampling.max_new_tokens, ends, pad)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad(), evaluating(model):
        torch.manual_seed(sampling.seed)
        for start in range(0, len(encoded), sampling.batch_size):
            part = encoded[start : start + sampling.batch_size]
            width = max(map(len, part))
            ids = torch.tensor([[pad] * (width - len(row)) + row for row in part], device=model.device)
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in part], device=model.device)
            made = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, width:].tolist()
            for row in made:
                stop = next((i for i, token in enumerate(row) if token in ends), None)
                yield Completed(tuple(row if stop is None else row[: stop + 1]), stop is not None)


def _judged(
    judge: Callable[..., Any],
    tokenizer: Any,
    prompts: Sequence[Prompt],
    columns: Mapping[str, Sequence[Any]],
    order: NDArray[np.int64],
    completions: Sequence[Completed],
) -> NDArray[np.bool_]:
    asked = [prompts[i] for i in order]
    texts = tokenizer.batch_decode([list(one.ids) for one in completions], skip_special_tokens=True)
    said = [
        text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
        for prompt, text in zip(asked, texts, strict=True)
    ]
    given = {name: [values[i] for i in order] for name, values in columns.items()}
    values = judge(prompts=asked, completions=said, completion_ids=[list(one.ids) for one in completions], **given)
    if inspect.isawaitable(values):
        values = asyncio.run(_awaited(values))
    # None is a judge's word for a completion that it cannot judge.
    return np.array([value is not None and float(value) >= RIGHT for value in values])


async def _awaited(values: Any) -> Any:
    return await values
