"""The text of a completion, as TRL hands it to a reward function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Completion = str | Sequence[Mapping[str, Any]]
"""Plain text, or the messages of a conversation."""


def text_of(completion: Completion) -> str:
    """Return what the model wrote.

    Of a conversation that is the assistant's last message; content given in parts is joined.

    >>> text_of("12"), text_of([{"role": "assistant", "content": "12"}])
    ('12', '12')
    """
    if isinstance(completion, str):
        return completion
    spoken = [message["content"] for message in completion if message.get("role") == "assistant"]
    content = spoken[-1] if spoken else ""
    if content is None:  # a message that only calls a tool
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
