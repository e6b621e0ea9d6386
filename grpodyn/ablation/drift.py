"""How far a trained model has drifted from its base: forward KL on the task's prompts, along the base's completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpodyn.evaluation.answer_scores import end_tokens, evaluating

_ROWS = 256


@dataclass(frozen=True)
class BaseCompletions:
    """Completions that the base has sampled at T=1, with its own distributions at each of their tokens."""

    ids: Tensor
    """(n, width): prompts padded on the left, then completions."""
    attention: Tensor
    scored: Tensor
    """(n, completion): tokens of the completion up to its end, the end included."""
    log_probabilities: Tensor
    """(n, completion, vocabulary), of the base."""


def sample_base(model: Any, tokenizer: Any, prompts: tuple[str, ...], max_new_tokens: int) -> BaseCompletions:
    """Return one completion of each prompt, sampled by the base; torch's random state is left as it was."""
    encoded = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left").to(model.device)
    width = encoded["input_ids"].shape[1]
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad(), evaluating(model):
        torch.manual_seed(0)
        ids = model.generate(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=max_new_tokens,
            pad_token_id=tokenizer.pad_token_id,
        )
    completion = ids[:, width:]
    ended = torch.isin(completion, torch.tensor(end_tokens(model, tokenizer), device=ids.device))
    # True up to and at the first end token.
    scored = ended.cumsum(1) - ended.long() == 0
    attention = torch.cat([encoded["attention_mask"], scored.long()], dim=1)
    return BaseCompletions(ids, attention, scored, _log_probabilities(model, ids, attention, completion.shape[1]))


def forward_kl(model: Any, base: BaseCompletions) -> float:
    """Return the mean over tokens of Σ_v π₀(v) ln(π₀(v)/π(v)), in nats: what the base says and the model does not.

    Reference:
        the predictor of forgetting of arXiv 2509.04259 (forward KL on the new task), summed over the vocabulary at each
        token rather than sampled.
    """
    log_p = _log_probabilities(model, base.ids, base.attention, base.scored.shape[1])
    each = (base.log_probabilities.exp() * (base.log_probabilities - log_p)).double().sum(-1)
    return float(each[base.scored].mean())


def _log_probabilities(model: Any, ids: Tensor, attention: Tensor, completion: int) -> Tensor:
    parts = []
    with torch.no_grad(), evaluating(model):
        for start in range(0, len(ids), _ROWS):
            rows = slice(start, start + _ROWS)
            mask = attention[rows]
            logits = model(
                input_ids=ids[rows],
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
                use_cache=False,
            ).logits[:, -completion - 1 : -1]
            parts.append(logits.float().log_softmax(-1))
    return torch.cat(parts)
