"""How far a policy has moved from where it started, on the prompts of its task: forward KL(π₀‖π)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import end_tokens, evaluating
from grpodyn.evaluation.generation import generation
from grpodyn.evaluation.token_scores import Row, token_log_probabilities

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StartSamples:
    """What the starting policy answered, and how likely each token was to it; enough to measure drift without it."""

    rows: tuple[Row, ...]
    """Each prompt with one completion, the end token included."""
    log_probabilities: tuple[Floats, ...]
    """ln π₀ of each completion's tokens."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "prompts": [list(row.given) for row in self.rows],
            "completions": [list(row.scored) for row in self.rows],
            "log_probabilities": [each.tolist() for each in self.log_probabilities],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StartSamples:
        """Return what `to_json` gave."""
        rows = zip(value["prompts"], value["completions"], strict=True)
        return cls(
            tuple(Row(tuple(prompt), tuple(completion)) for prompt, completion in rows),
            tuple(np.array(each, np.float64) for each in value["log_probabilities"]),
        )


@dataclass(frozen=True)
class Drift:
    """Forward KL, prompt by prompt."""

    nats: Floats
    """(prompts,): unbiased estimates of Σ_t KL(π₀‖π) over a completion; single ones may be negative."""
    tokens: Floats
    """(prompts,): tokens of each completion."""

    @property
    def per_completion(self) -> float:
        """Mean nats of a completion."""
        return float(self.nats.mean())

    @property
    def per_token(self) -> float:
        """Σ nats / Σ tokens."""
        return float(self.nats.sum() / self.tokens.sum())


def sample_start(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    seed: int = 0,
    batch_size: int = 256,
) -> StartSamples:
    """Return one completion of each prompt, sampled by the model as it is now at temperature 1, nothing cut off.

    Args:
        model: the starting policy; its training modes are left as they were.
        tokenizer: its tokenizer.
        prompts: of the task.
        max_new_tokens: where a completion is cut off.
        seed: of the sampling; torch's global random state is left as it was.
        batch_size: completions at a time.

    Raises:
        ConfigError: no prompts, or nothing can end a completion.
    """
    import torch

    if not prompts:
        raise ConfigError("there are no prompts to measure drift on; give at least one")
    ends = end_tokens(model, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    settings = generation(1.0, max_new_tokens, ends, pad)
    encoded = [list(ids) for ids in tokenizer(list(prompts))["input_ids"]]
    rows: list[Row] = []
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad(), evaluating(model):
        torch.manual_seed(seed)
        for start in range(0, len(encoded), batch_size):
            part = encoded[start : start + batch_size]
            width = max(map(len, part))
            ids = torch.tensor([[pad] * (width - len(row)) + row for row in part], device=model.device)
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in part], device=model.device)
            drawn = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, width:].tolist()
            rows += [Row(tuple(row), _ended(answer, ends)) for row, answer in zip(part, drawn, strict=True)]
    return StartSamples(tuple(rows), tuple(token_log_probabilities(model, rows)))


def _ended(completion: list[int], ends: Sequence[int]) -> tuple[int, ...]:
    stop = next((i + 1 for i, token in enumerate(completion) if token in ends), len(completion))
    return tuple(completion[:stop])


def forward_drift(model: Any, start: StartSamples) -> Drift:
    """Return KL(π₀‖π) of a policy π, estimated on what π₀ sampled.

    With r_t = π(x_t)/π₀(x_t) along a completion of π₀, Σ_t −ln r_t has KL as its mean, and Σ_t (r_t − 1) has mean 0:
    the multiple of the second that takes most of the noise out of the first is added (a control variate), by which a
    small drift is measured as well as a large one.

    Reference:
        arXiv 2509.04259: forward KL on the new task predicts forgetting; the estimator is that of Owen, Monte Carlo
        theory, methods and examples (2013), section 8.9.
    """
    log_ratio = [
        now - before
        for now, before in zip(token_log_probabilities(model, start.rows), start.log_probabilities, strict=True)
    ]
    plain = np.array([-float(each.sum()) for each in log_ratio])
    # A token a million times likelier than before says no more than that; its square would drown everything else.
    centred = np.array([float(np.expm1(np.minimum(each, 14.0)).sum()) for each in log_ratio])
    spread = float(((centred - centred.mean()) ** 2).sum())
    weight = 0.0
    if spread > 0:
        weight = -float(((centred - centred.mean()) * (plain - plain.mean())).sum()) / spread
    return Drift(plain + weight * centred, np.array([len(each) for each in log_ratio], np.float64))
