"""How undecided a model is while it answers: the mean entropy of its next token, over its own completions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import end_tokens, evaluating
from grpodyn.evaluation.generation import generation

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


def token_entropy(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    temperature: float = 1.0,
    *,
    max_new_tokens: int,
    samples: int = 1,
    seed: int = 0,
    batch_size: int = 256,
) -> float:
    """Return the mean over generated tokens of H(softmax(z / T)), in nats, while sampling at temperature T.

    H = −Σ_v p_v ln p_v at each token of a completion, the end token included, what comes after it not. Nothing is cut
    off (top_k 0, top_p 1). Tokens weigh alike, so long completions weigh more, as in the entropy that TRL logs.

    Args:
        model: a causal language model of transformers, PEFT-wrapped or not; its training modes are left as they were.
        tokenizer: its tokenizer.
        prompts: n prompts.
        temperature: > 0.
        max_new_tokens: where a completion is cut off.
        samples: completions a prompt.
        seed: of the sampling; torch's global random state is left as it was.
        batch_size: completions at a time.

    Raises:
        ConfigError: no prompts, a temperature that is not positive, or nothing can end a completion.
    """
    import torch

    if not prompts:
        raise ConfigError("there are no prompts to measure entropy on; give at least one")
    if not 0 < temperature < math.inf:
        raise ConfigError(f"temperature {temperature} must be > 0; greedy decoding has no entropy")
    if min(max_new_tokens, samples, batch_size) < 1:
        raise ConfigError(f"{max_new_tokens=}, {samples=} and {batch_size=} must be at least 1")
    ends = end_tokens(model, tokenizer)
    asked = [prompt for prompt in prompts for _ in range(samples)]
    devices = [model.device] if model.device.type == "cuda" else []
    total, tokens = 0.0, 0
    with torch.random.fork_rng(devices), torch.no_grad(), evaluating(model):
        torch.manual_seed(seed)
        for start in range(0, len(asked), batch_size):
            ids, attention = _padded(tokenizer, asked[start : start + batch_size], model.device)
            of_batch, count = _sampled_entropy(model, ids, attention, temperature, ends, max_new_tokens)
            total, tokens = total + of_batch, tokens + count
    return total / tokens


def _padded(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], device: Any) -> tuple[Any, Any]:
    import torch

    rows = tokenizer(list(prompts))["input_ids"]
    width = max(map(len, rows))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows], device=device)
    attention = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, attention


class _Entropies:
    """A logits processor that divides by the temperature and keeps the entropy of every step: (n,) each."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self.by_step: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.float() / self._temperature
        log_p = scores.log_softmax(-1)
        # 0 · ln 0 is 0, but exp(−inf) · −inf is nan.
        self.by_step.append(-(log_p.exp() * log_p).nan_to_num(0.0).sum(-1))
        return scores


def _sampled_entropy(
    model: Any, ids: torch.Tensor, attention: torch.Tensor, temperature: float, ends: list[int], max_new_tokens: int
) -> tuple[float, int]:
    """Return the summed entropy of one batch's completions, and the number of their tokens."""
    import torch
    from transformers import LogitsProcessorList

    entropies = _Entropies(temperature)
    out = model.generate(
        input_ids=ids,
        attention_mask=attention,
        logits_processor=LogitsProcessorList([entropies]),
        # The processor has divided by the temperature already.
        generation_config=generation(1.0, max_new_tokens, ends, ends[0]),
    )
    ended = torch.isin(out[:, ids.shape[1] :], torch.tensor(ends, device=out.device)).cumsum(1)
    # (n, steps): a token counts if no end came before it.
    counts = torch.cat([torch.ones_like(ended[:, :1]), 1 - ended[:, :-1].clamp(max=1)], dim=1)
    each = torch.stack(entropies.by_step, dim=1).double()
    return float((each * counts).sum()), int(counts.sum())
