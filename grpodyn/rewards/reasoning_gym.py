"""Reward of reasoning-gym's own checkers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grpodyn.rewards.answers import MARKS, Mark, Several, Unmarked, candidates
from grpodyn.rewards.completion import Completion
from grpodyn.rewards.referee import MOST_CHARACTERS, referee
from grpodyn.rewards.thinking import answer_parts


def reasoning_gym(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    entry: Sequence[str],
    *,
    marks: Sequence[Mark] = MARKS,
    several: Several = "agree",
    unmarked: Unmarked = "whole",
    opened: bool = False,
    **_: Any,
) -> list[float]:
    """Return what the generator's own checker gives for each answer, from 0.0 to 1.0; several answers get the lowest.

    The checker runs in a process that is killed after five seconds: the answer earns nothing then. Needs the extra
    `tasks`.

    Args:
        prompts: of the completions.
        completions: text or messages; what is inside the thinking is passed over.
        entry: the column of the task `reasoning_gym` that says which generator made which question.
        marks: which marks of an answer count.
        several: with several marked answers, `agree` takes the worst of them.
        unmarked: what counts where no answer is marked; `last_number` is none of a puzzle.
        opened: whether the chat template opens the thinking: what never closes it then gives no answer.
    """
    given = [candidates(text, marks, several, unmarked) for text in answer_parts(completions, prompts, opened)]
    questions = [
        {"given": candidate[:MOST_CHARACTERS], **json.loads(of)}
        for found, of in zip(given, entry, strict=True)
        for candidate in found
    ]
    scores = iter(referee("reasoning_gym").judge(questions))
    return [min((next(scores) for _ in found), default=0.0) for found in given]
