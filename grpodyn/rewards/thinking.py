"""Which part of a completion is its answer: what is written inside the thinking does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grpodyn.rewards.completion import Completion, text_of

THOUGHTS: Final = ("think", "thinking", "thought", "reasoning")
"""Tags that models think in."""


def answer_part(completion: Completion, prompt: Any = "", opened: bool = False) -> str:
    """Return what a completion says after its thinking; nothing if it is still thinking at its end.

    Args:
        completion: text or messages.
        prompt: the prompt, whose end may open the thinking; only text is looked at.
        opened: whether the chat template opens it, which a prompt in messages does not show.

    >>> answer_part("<think>Is it 4?</think>It is 5.")
    'It is 5.'
    >>> answer_part("It is 4, I think.", prompt="2+2? <think>"), answer_part("5 <think>or 6")
    ('', '5 ')
    """
    text = text_of(completion)
    closings = [text.rfind(f"</{tag}>") + len(f"</{tag}>") for tag in THOUGHTS if f"</{tag}>" in text]
    if closings:
        text = text[max(closings) :]
    elif opened or (isinstance(prompt, str) and opened_thinking(prompt)):
        return ""
    openings = [text.find(f"<{tag}>") for tag in THOUGHTS if f"<{tag}>" in text]
    return text[: min(openings)] if openings else text


def answer_parts(completions: Sequence[Completion], prompts: Sequence[Any], opened: bool = False) -> list[str]:
    """Return the answer part of each completion."""
    return [answer_part(completion, prompt, opened) for completion, prompt in zip(completions, prompts, strict=True)]


def opened_thinking(prompt: str) -> str | None:
    """Return the tag of the thinking that a prompt opens at its end, or None.

    >>> opened_thinking("2+2? <think>\\n"), opened_thinking("2+2?")
    ('think', None)
    """
    return next((tag for tag in THOUGHTS if prompt.rstrip().endswith(f"<{tag}>")), None)
