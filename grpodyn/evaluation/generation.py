"""How evaluations draw completions: by what is asked for alone, whatever the model's own generation config says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from transformers import GenerationConfig

# What is left out here, `generate` fills in from the model's own config: chat models of a well-known family come with a
# repetition penalty of 1.05 to 1.1, which no training draws with, and under which probabilities are not the policy's.
NEUTRAL: Final[dict[str, Any]] = {
    "num_beams": 1,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
}
NOTHING_CUT_OFF: Final[dict[str, Any]] = {
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}


def generation(temperature: float | None, max_new_tokens: int, ends: Sequence[int], pad: int) -> GenerationConfig:
    """Return settings for `generate` that leave nothing to the model's own.

    Args:
        temperature: of the sampling, of which nothing is cut off; None or 0 is greedy.
        max_new_tokens: where a completion is cut off.
        ends: tokens that end a completion.
        pad: the token that fills a batch.
    """
    from transformers import GenerationConfig

    drawing = (
        {"do_sample": True, "temperature": temperature, **NOTHING_CUT_OFF} if temperature else {"do_sample": False}
    )
    return GenerationConfig(
        **NEUTRAL, **drawing, max_new_tokens=max_new_tokens, eos_token_id=list(ends), pad_token_id=pad
    )
