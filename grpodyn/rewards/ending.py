"""Rewards for how a completion ends and how long it is, in tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from pydantic import Field

from grpodyn.rewards.completion import Completion

Ids = Sequence[Sequence[int]]
Length = Annotated[int, Field(ge=1)]


def stop(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    completion_ids: Ids,
    *,
    end_tokens: Collection[int],
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion that the model ended itself, 0.0 for each that was cut off.

    Args:
        prompts: of the completions.
        completions: their text, which no longer shows the end token.
        completion_ids: their tokens, as the trainer gives them.
        end_tokens: the tokens that end a completion; by default those of the tokenizer and the model.

    >>> stop([""] * 3, ["a", "a", ""], [[5, 1], [5, 5], []], end_tokens=[1])
    [1.0, 0.0, 0.0]
    """
    return [float(bool(ids) and ids[-1] in end_tokens) for ids in map(list, completion_ids)]


def length(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    completion_ids: Ids,
    *,
    longest: Length,
    shortest: Annotated[int, Field(ge=0)] = 1,
    slack: Length | None = None,
    **_: Any,
) -> list[float]:
    """Return 1.0 for each completion of `shortest` to `longest` tokens, falling linearly to 0.0 outside.

    Args:
        prompts: of the completions.
        completions: their text.
        completion_ids: their tokens, as the trainer gives them.
        longest: tokens.
        shortest: tokens.
        slack: tokens outside after which nothing is left; by default as many as `longest`.

    >>> length([""] * 4, [""] * 4, [[0] * n for n in (4, 10, 12, 20)], longest=10, shortest=5, slack=4)
    [0.75, 1.0, 0.5, 0.0]
    """
    over = slack or longest
    beyond = [max(len(ids) - longest, shortest - len(ids), 0) for ids in completion_ids]
    return [max(0.0, 1.0 - far / over) for far in beyond]


def soft_overlong(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    completion_ids: Ids,
    *,
    max_length: Length,
    cache: Length | None = None,
    **_: Any,
) -> list[float]:
    """Return clip((L_max − |y|) / L_cache − 1, −1, 0): no penalty up to L_max − L_cache tokens, −1 from L_max on.

    Written out here, as TRL's `get_soft_overlong_punishment` comes with torch; a test holds the two equal.

    Args:
        prompts: of the completions.
        completions: their text.
        completion_ids: their tokens, as the trainer gives them.
        max_length: L_max; by default the run's `max_completion_length`.
        cache: L_cache, over how many tokens the penalty grows; by default a fifth of L_max, as in the paper.

    Reference: Yu et al., DAPO, arXiv:2503.14476, equation 13.

    >>> soft_overlong([""] * 4, [""] * 4, [[0] * n for n in (80, 90, 100, 120)], max_length=100, cache=20)
    [0.0, -0.5, -1.0, -1.0]
    """
    grows = cache or max(1, max_length // 5)
    return [min(0.0, max(-1.0, (max_length - len(ids)) / grows - 1)) for ids in completion_ids]


def repetition(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    completion_ids: Ids,
    *,
    ngram: Length = 3,
    **_: Any,
) -> list[float]:
    """Return minus the share of n-grams of tokens that a completion has said before: 0.0 for none, towards −1 for all.

    Args:
        prompts: of the completions.
        completions: their text.
        completion_ids: their tokens, as the trainer gives them.
        ngram: tokens of an n-gram; a completion shorter than that repeats nothing.

    Reference: Yeo et al., Demystifying Long Chain-of-Thought Reasoning, arXiv:2502.03373, appendix C.2; TRL's
    `get_repetition_penalty_reward` is the same.

    >>> repetition([""] * 2, [""] * 2, [[1, 2, 3, 4], [5, 5, 5, 5, 5]], ngram=2)
    [0.0, -0.75]
    """
    return [_repeated(tuple(ids), ngram) for ids in completion_ids]


def _repeated(ids: tuple[int, ...], n: int) -> float:
    grams = [ids[start : start + n] for start in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) - 1.0 if grams else 0.0
