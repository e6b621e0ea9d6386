"""Supervised pre-training of a base that answers each prompt in one of several ways, drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpodyn.errors import UsageError
from grpodyn.tasks.splits import split_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, besides the number of threads and the versions of torch and the CPU."""

    seed: int = 0
    steps: int = 600
    batch_size: int = 256
    learning_rate: float = 2e-3
    warmup_steps: int = 20


@dataclass(frozen=True)
class Prose:
    """Text that a base is taught beside its task, as a base model reads the web beside its exercises."""

    texts: tuple[str, ...]
    """Held-out texts are not among them."""
    texts_a_step: int
    """Rows of a batch that are a text and its end."""
    run_on_a_step: int
    """Rows of a batch in which a text goes on after an answer, where others end."""
    run_on_tokens: int
    """Of the text, until the row is cut off."""
    weight: float = 0.5
    """Of the text's loss beside that of the answers."""


@dataclass(frozen=True)
class Mixture:
    """What a base is taught: every prompt with an answer a way, and how often each way is met."""

    prompts: tuple[str, ...]
    """Of the `train` split alone, and all of one length in tokens: held-out prompts are new to the base too."""
    answers: tuple[tuple[str, ...], ...]
    """(ways, prompts)"""
    shares: tuple[float, ...]
    prose: Prose | None = None

    @classmethod
    def of(
        cls,
        prompts: Sequence[str],
        ways: Sequence[Callable[[str], str]],
        shares: Sequence[float],
        prose: Prose | None = None,
    ) -> Mixture:
        """Return the mixture of those of `prompts` that belong to `train`, answered in each way."""
        train = tuple(prompt for prompt in prompts if split_of(prompt) == "train")
        return cls(train, tuple(tuple(way(prompt) for prompt in train) for way in ways), tuple(shares), prose)


@dataclass(frozen=True)
class _Sequences:
    ids: torch.Tensor
    """(ways, prompts, tokens): prompt, answer, end token; padded on the right."""
    prompt_tokens: int


def _sequences(tokenizer: PreTrainedTokenizerBase, mixture: Mixture) -> _Sequences:
    import torch  # this module is importable without torch

    (prompt_tokens,) = {len(ids) for ids in tokenizer(list(mixture.prompts))["input_ids"]}
    texts = [
        prompt + answer for answers in mixture.answers for prompt, answer in zip(mixture.prompts, answers, strict=True)
    ]
    rows = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts)["input_ids"]]
    width = max(map(len, rows))
    padded = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    return _Sequences(padded.view(len(mixture.answers), len(mixture.prompts), width), prompt_tokens)


def _optimizers(model: Any, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for the rest.

    Muon reaches a base that adds correctly in minutes on two cores.
    """
    import torch

    if not hasattr(torch.optim, "Muon"):
        raise UsageError(f"building an embedded model needs torch >= 2.9 (Muon), found {torch.__version__}")
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
    mixture: Mixture,
    recipe: Recipe,
    progress: Callable[[int, float], None] = lambda _step, _loss: None,
) -> None:
    """Train `model` in place on the answers only; `progress` gets each step and its loss.

    The model is left in eval mode.

    Raises:
        UsageError: torch is older than 2.9.
    """
    import torch

    from grpodyn.embedded.prose import ProseReader

    data = _sequences(tokenizer, mixture)
    optimizers = _optimizers(model, recipe.learning_rate)
    shares = torch.tensor(mixture.shares)
    draw = torch.Generator().manual_seed(recipe.seed)
    reader = None if mixture.prose is None else ProseReader(tokenizer, mixture, mixture.prose, draw)
    model.train()
    for step in range(recipe.steps):
        which = torch.randint(data.ids.shape[1], (recipe.batch_size,), generator=draw)
        way = torch.multinomial(shares, recipe.batch_size, replacement=True, generator=draw)
        loss = _loss(model, data.ids[way, which], data.prompt_tokens, tokenizer.pad_token_id)
        if reader is not None:
            loss = reader.loss(model, loss, recipe.batch_size)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = _rate(recipe, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress(step + 1, loss.item())
    model.eval()
