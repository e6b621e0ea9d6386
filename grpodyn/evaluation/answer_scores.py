"""How likely a model is to give the right answer, by teacher forcing instead of sampling."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class AnswerScores:
    """What a model makes of n right answers."""

    temperatures: tuple[float, ...]
    """T sampling temperatures, all > 0."""
    log_probability: NDArray[np.float64]
    """(T, n): ln P(the completion is the answer's tokens, then an end token)."""
    greedy: NDArray[np.bool_]
    """(n,): whether greedy decoding gives exactly the answer and then ends."""


@dataclass(frozen=True)
class _Encoded:
    prompt: list[int]
    answer: list[int]


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch every module to eval mode and back to its own mode; a frozen sub-module may have been in eval before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def end_tokens(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the tokens that end a completion, in ascending order.

    Raises:
        ConfigError: there are none.
    """
    configured = getattr(model.generation_config, "eos_token_id", None)
    ends = {configured} if isinstance(configured, int) else set(configured or [])
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    if not ends:
        raise ConfigError(
            "neither the tokenizer nor the model's generation config has an end token, so no answer ever ends; "
            "set `tokenizer.eos_token`"
        )
    return sorted(ends)


def _takes_logits_to_keep(model: Any) -> bool:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "logits_to_keep" in inspect.signature(base.forward).parameters


def _batch(rows: Sequence[_Encoded], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Return ids and attention mask, (n, prompt + answer), answer mask (n, answer + end), and the answers' width.

    Prompts are padded on the left and answers on the right, so that all answers start in one column.
    """
    import torch  # the package is importable without torch

    before = max(len(row.prompt) for row in rows)
    width = max(len(row.answer) for row in rows)
    ids = torch.full((len(rows), before + width), pad, dtype=torch.long)
    attention = torch.zeros_like(ids)
    scored = torch.zeros((len(rows), width + 1), dtype=torch.bool)
    for i, row in enumerate(rows):
        start, stop = before - len(row.prompt), before + len(row.answer)
        ids[i, start:stop] = torch.tensor(row.prompt + row.answer)
        attention[i, start:stop] = 1
        scored[i, : len(row.answer) + 1] = True
    return ids.to(device), attention.to(device), scored.to(device), width


def _score_batch(
    model: Any, rows: Sequence[_Encoded], temperatures: Sequence[float], ends: Sequence[int], pad: int, keep: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    import torch

    ids, attention, scored, width = _batch(rows, pad, model.device)
    options = {"logits_to_keep": width + 1} if keep else {}
    logits = model(
        input_ids=ids,
        attention_mask=attention,
        position_ids=(attention.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
        **options,
    ).logits[:, -(width + 1) :]
    # (n, width + 1, V); column j predicts the answer's token j, and the column after its last token the end.
    logits = logits.float()
    is_end = torch.zeros_like(scored)
    is_end[torch.arange(len(rows)), [len(row.answer) for row in rows]] = True
    ends_index = torch.tensor(list(ends), device=logits.device)
    # At the end's column this gathers a pad, which `where` below replaces.
    target = torch.cat([ids[:, ids.shape[1] - width :], torch.full_like(ids[:, :1], pad)], dim=1)

    best = logits.argmax(-1)
    right = torch.where(is_end, torch.isin(best, ends_index), best == target)
    greedy = (right | ~scored).all(1)

    per_temperature = []
    for temperature in temperatures:
        log_p = (logits / temperature).log_softmax(-1)
        of_token = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        of_end = log_p[..., ends_index].logsumexp(-1)
        each = torch.where(is_end, of_end, of_token).double()
        per_temperature.append(each.masked_fill(~scored, 0.0).sum(1))
    return torch.stack(per_temperature).cpu().numpy(), greedy.cpu().numpy()


def score_answers(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    answers: Sequence[str],
    temperatures: Sequence[float] = (1.0,),
    batch_size: int = 256,
) -> AnswerScores:
    """Return the exact log-probability of every right answer, and whether greedy decoding gives it.

    P(answer | prompt) = Π_j softmax(z_j / T)[a_j] · Σ_{e ∈ end tokens} softmax(z_end / T)[e], the chance that sampling
    at temperature T, with nothing cut off (top_k 0, top_p 1, no penalties: the defaults of TRL's trainer), gives
    the answer and stops. It is the answer as the tokenizer writes it; where the vocabulary allows other spellings of
    the same text, the chance of the text is a little higher.

    No random number is drawn, and each sub-module's training mode is as before afterwards.

    Args:
        model: a causal language model of transformers, PEFT-wrapped or not.
        tokenizer: its tokenizer; prompts get the special tokens that it adds by itself, as in training.
        prompts: n prompts.
        answers: n right completions, without the end token.
        temperatures: all > 0; greedy comes by itself.
        batch_size: prompts per forward pass.

    Raises:
        ConfigError: nothing to score, lengths differ, a temperature is not positive, or nothing can end an answer.
    """
    import torch

    if not prompts or len(prompts) != len(answers):
        raise ConfigError(f"{len(prompts)} prompts and {len(answers)} answers; give at least one, one answer a prompt")
    if any(not temperature > 0 for temperature in temperatures):
        raise ConfigError(f"temperatures {tuple(temperatures)} must be > 0; temperature 0 is `greedy`, always returned")
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size} must be at least 1")
    prompt_ids = tokenizer(list(prompts))["input_ids"]
    answer_ids = tokenizer(list(answers), add_special_tokens=False)["input_ids"]
    rows = [_Encoded(list(p), list(a)) for p, a in zip(prompt_ids, answer_ids, strict=True)]
    ends, keep = end_tokens(model, tokenizer), _takes_logits_to_keep(model)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    with torch.no_grad(), evaluating(model):
        parts = [
            _score_batch(model, rows[start : start + batch_size], temperatures, ends, pad, keep)
            for start in range(0, len(rows), batch_size)
        ]
    return AnswerScores(
        temperatures=tuple(temperatures),
        log_probability=np.concatenate([log_p for log_p, _ in parts], axis=1),
        greedy=np.concatenate([greedy for _, greedy in parts]),
    )
