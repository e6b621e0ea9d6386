"""Supervised pre-training of the embedded base: right numbers, in a format drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grpodyn.errors import UsageError
from grpodyn.tasks.arithmetic_format import AnswerFormat, problems, split_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

FORMAT_SHARES: Final = {
    AnswerFormat.PLAIN: 0.36,
    AnswerFormat.BRACKETED: 0.30,
    AnswerFormat.MARKED: 0.28,
    AnswerFormat.DECIMAL: 0.06,
}
"""How often the base meets each format. The wanted one is rare, but common enough that groups of eight find it."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, besides the number of threads and the versions of torch and the CPU."""

    seed: int = 0
    steps: int = 600
    batch_size: int = 256
    learning_rate: float = 2e-3
    warmup_steps: int = 20


@dataclass(frozen=True)
class _Sequences:
    ids: torch.Tensor
    """(formats, problems, tokens): prompt, answer, end token; padded on the right."""
    prompt_tokens: int


def _sequences(tokenizer: PreTrainedTokenizerBase) -> _Sequences:
    import torch  # this module is importable without torch

    train = {prompt: number for prompt, number in problems().items() if split_of(prompt) == "train"}
    (prompt_tokens,) = {len(ids) for ids in tokenizer(list(train))["input_ids"]}
    texts = [prompt + form.write(number) for form in FORMAT_SHARES for prompt, number in train.items()]
    rows = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts)["input_ids"]]
    width = max(map(len, rows))
    padded = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    return _Sequences(padded.view(len(FORMAT_SHARES), len(train), width), prompt_tokens)


def _optimizers(model: Any, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for the rest.

    Muon reaches a base that adds correctly in minutes on two cores.
    """
    import torch

    if not hasattr(torch.optim, "Muon"):
        raise UsageError(f"rebuilding the embedded model needs torch >= 2.9 (Muon), found {torch.__version__}")
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of a step: linear warm-up, then a straight line to 1/50."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return recipe.learning_rate * warm * max(0.02, 1 - step / recipe.steps)


def _loss(model: Any, ids: torch.Tensor, prompt_tokens: int, pad: int) -> torch.Tensor:
    import torch

    ids = ids[:, : int((ids != pad).any(0).sum())]
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits[:, prompt_tokens - 1 :]
    target = ids[:, prompt_tokens:]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad)


def pretrain(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    progress: Callable[[int, float], None] = lambda _step, _loss: None,
) -> None:
    """Train `model` in place on the `train` split, on the answers only; `progress` gets each step and its loss.

    Held-out prompts are new to the base too. The model is left in eval mode.

    Raises:
        UsageError: torch is older than 2.9.
    """
    import torch

    data = _sequences(tokenizer)
    optimizers = _optimizers(model, recipe.learning_rate)
    shares = torch.tensor(list(FORMAT_SHARES.values()))
    draw = torch.Generator().manual_seed(recipe.seed)
    model.train()
    for step in range(recipe.steps):
        which = torch.randint(data.ids.shape[1], (recipe.batch_size,), generator=draw)
        form = torch.multinomial(shares, recipe.batch_size, replacement=True, generator=draw)
        loss = _loss(model, data.ids[form, which], data.prompt_tokens, tokenizer.pad_token_id)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = _rate(recipe, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress(step + 1, loss.item())
    model.eval()
