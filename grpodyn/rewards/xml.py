"""Rewards for the form of an answer: XML-like tags around its parts, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from grpodyn.rewards.completion import Completion, text_of

TAGS: Final = ("reasoning", "answer")
Tags = Annotated[Sequence[str], Field(min_length=1)]


def xml_format(
    prompts: Sequence[Any], completions: Sequence[Completion], *, tags: Tags = TAGS, opened: bool = False, **_: Any
) -> list[float]:
    """Return 1.0 for each completion that is the tags in their order, each once and not empty, and nothing else.

    Args:
        prompts: of the completions.
        completions: text or messages.
        tags: names of the tags.
        opened: whether the prompt's end has opened the first tag already, as templates of thinking models do.

    >>> xml_format([""] * 2, ["<reasoning>1+1</reasoning><answer>2</answer>", "<answer>2</answer>"])
    [1.0, 0.0]
    """
    return [float(_is_whole(text_of(completion), tags, opened)) for completion in completions]


def xml_tags(prompts: Sequence[Any], completions: Sequence[Completion], *, tags: Tags = TAGS, **_: Any) -> list[float]:
    """Return the share of opening and closing tags that stand in a completion exactly once.

    >>> xml_tags([""] * 3, ["<answer>2</answer>", "<answer><answer>2</answer>", ""])
    [0.5, 0.25, 0.0]
    """
    marks = [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    texts = [text_of(completion) for completion in completions]
    return [sum(text.count(mark) == 1 for mark in marks) / len(marks) for text in texts]


def xml_tag(prompts: Sequence[Any], completions: Sequence[Completion], *, tag: str = "answer", **_: Any) -> list[float]:
    """Return 1.0 for each completion that holds one tag exactly once, with something in it, else 0.0.

    >>> xml_tag([""] * 3, ["<answer>2</answer>", "<answer> </answer>", "2"])
    [1.0, 0.0, 0.0]
    """
    return [float(_content(text_of(completion), tag) is not None) for completion in completions]


def _content(text: str, tag: str) -> tuple[int, int] | None:
    """Return where the one `<tag>…</tag>` of a text begins and ends; None if there is not one, or it is empty."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    if text.count(opening) != 1 or text.count(closing) != 1:
        return None
    start, end = text.index(opening), text.index(closing)
    return (start, end + len(closing)) if text[start + len(opening) : end].strip() and start < end else None


def _is_whole(text: str, tags: Sequence[str], opened: bool) -> bool:
    full = f"<{tags[0]}>{text}" if opened else text
    position = 0
    for tag in tags:
        span = _content(full, tag)
        if span is None or span[0] < position or full[position : span[0]].strip():
            return False
        position = span[1]
    return not full[position:].strip()
