"""What a model makes of given tokens: the log-probability of each, by teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.evaluation.answer_scores import evaluating

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

LOGITS_AT_ONCE = 1 << 26
"""Rows × tokens × vocabulary of one forward pass; in float32 a quarter of a gigabyte."""


@dataclass(frozen=True)
class Row:
    """Tokens to score after tokens that are given; at least one is given."""

    given: tuple[int, ...]
    scored: tuple[int, ...]


def token_log_probabilities(model: Any, rows: Sequence[Row]) -> list[Floats]:
    """Return ln softmax(z)[token] of every scored token, at temperature 1, one array a row.

    No random number is drawn, and each sub-module's training mode is as before afterwards.

    Args:
        model: a causal language model of transformers, PEFT-wrapped or not.
        rows: what to score.
    """
    import torch

    found: list[Floats] = []
    with torch.no_grad(), evaluating(model):
        for batch in _batches(rows, _vocabulary(model)):
            found += _score(model, batch)
    return found


def _vocabulary(model: Any) -> int:
    config = model.config
    return int(getattr(config, "vocab_size", None) or config.get_text_config().vocab_size)


def _batches(rows: Sequence[Row], vocabulary: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    width = 0
    for row in rows:
        wider = max(width, len(row.given) + len(row.scored))
        if batch and (len(batch) + 1) * wider * vocabulary > LOGITS_AT_ONCE:
            yield batch
            batch, wider = [], len(row.given) + len(row.scored)
        batch.append(row)
        width = wider
    if batch:
        yield batch


def _score(model: Any, rows: Sequence[Row]) -> list[Floats]:
    import torch

    width = max(len(row.given) + len(row.scored) for row in rows)
    # Padding stands on the right, where no scored token sees it; any token will do.
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    attention = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        tokens = torch.tensor(row.given + row.scored)
        ids[i, : len(tokens)] = tokens
        attention[i, : len(tokens)] = 1
    ids, attention = ids.to(model.device), attention.to(model.device)
    logits: torch.Tensor = model(input_ids=ids, attention_mask=attention, use_cache=False).logits[:, :-1]
    each = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).double().cpu().numpy()
    return [
        np.asarray(each[i, len(row.given) - 1 : len(row.given) + len(row.scored) - 1]) for i, row in enumerate(rows)
    ]
