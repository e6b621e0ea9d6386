r"""Finds the answers that a text marks as such: `\boxed{…}`, `<answer>…</answer>`, `#### …`, "the answer is …".

What runs on after its answer can change it. So by default *every* marked answer must be right: naming several answers,
or going on until one is right, earns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

Mark = Literal["boxed", "answer_tag", "hashes", "final_answer"]
MARKS: Final[tuple[Mark, ...]] = ("boxed", "answer_tag", "hashes", "final_answer")
Several = Literal["agree", "first", "last"]
"""What counts where several answers are marked: all of them must be right, or one of them alone."""
Unmarked = Literal["whole", "last_number", "nothing"]
"""What counts where no answer is marked: the text, if it is an answer and nothing else; its last number; nothing."""

_OPEN, _CLOSE = "<answer>", "</answer>"
_BOXES = (r"\boxed{", r"\fbox{")
_HASHES = re.compile(r"^[ \t]*####(?!#)[ \t]*(.+)$", re.MULTILINE)
# Markdown's fourth heading begins as an answer does. These are headings, not answers, once emphasis is taken off.
_HEADING = re.compile(
    r"\d+[.)]\s+[A-Za-z]{3,}.*"  # 2. Check
    r"|(?:[Ss]tep|STEP)\s*\d+"
    r"|(?:[Ss]tep|STEP|Part|Case|Method|Approach)\s*\d+[\s*_]*[:.)–—-].*"  # Step 1: add
    r"|(?:Final\s)?Answer|Solution|Steps|Reasoning|Explanation|Calculations?|Verification|Conclusion"
)
_WORDS = re.compile(
    r"(?:\bfinal[ ]answer\b|\bthe[ ](?:correct[ ]|right[ ]|best[ ])?answer\b|^[ \t*_#]*answer\b)"
    r"(?:[ \t*_]*(?:is\b|:|=))+[ \t*_:]*"
    r"(.+?)(?=(?:\\?[*_\"')])*(?:[.!;][*_\"')]*(?:\s|$)|\n|$))",
    re.IGNORECASE | re.MULTILINE,
)


def marked_answers(text: str, marks: Sequence[Mark] = MARKS) -> list[str]:
    r"""Return the answers that a text marks, in their order; of nested marks the innermost.

    >>> marked_answers(r"So <answer>\boxed{12}</answer>. The answer is 3.5. Bye.\n#### 7")
    ['12', '3.5']
    >>> marked_answers("12"), marked_answers("<answer>12")
    ([], [])
    >>> marked_answers("#### Step 1: add\n3 + 4\n#### 7")
    ['7']
    """
    spans = [span for mark in marks for span in _spans(text, mark)]
    inner = [
        (start, end)
        for start, end in spans
        if not any(start <= a and b <= end and (a, b) != (start, end) for a, b in spans)
    ]
    return [text[start:end].strip() for start, end in sorted(set(inner))]


def candidates(text: str, marks: Sequence[Mark], several: Several, unmarked: Unmarked) -> list[str]:
    """Return what must be right for a text to be right; nothing if it gives no answer.

    >>> candidates("The answer is 5. No, the answer is 6.", MARKS, "agree", "whole")
    ['5', '6']
    >>> candidates("The answer is 5. No, the answer is 6.", MARKS, "first", "whole")
    ['5']
    >>> candidates("6", MARKS, "agree", "whole"), candidates("6", MARKS, "agree", "nothing")
    (['6'], [])
    """
    found = marked_answers(text, marks)
    if not found:
        return [text.strip()] if unmarked == "whole" and text.strip() else []
    if several == "agree":
        return found
    return found[:1] if several == "first" else found[-1:]


def _spans(text: str, mark: Mark) -> Iterator[tuple[int, int]]:
    if mark == "boxed":
        yield from _boxed(text)
    elif mark == "answer_tag":
        yield from _tagged(text)
    else:
        pattern = _HASHES if mark == "hashes" else _WORDS
        for match in pattern.finditer(text):
            if mark == "hashes" and _is_heading(match[1]):
                continue
            yield match.span(1)


def _is_heading(line: str) -> bool:
    words = line.strip(" \t*_")
    return words.endswith(":") or _HEADING.fullmatch(words) is not None


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    # No pattern: on many tags that nothing closes, a pattern takes the square of their number.
    end = 0
    while (start := text.find(_OPEN, end)) >= 0 and (end := text.find(_CLOSE, start)) >= 0:
        yield start + len(_OPEN), end


def _boxed(text: str) -> Iterator[tuple[int, int]]:
    opened: list[int | None] = []
    position = 0
    while position < len(text):
        box = next((box for box in _BOXES if text.startswith(box, position)), None)
        if box is not None:
            position += len(box)
            opened.append(position)
            continue
        if text[position] == "{":
            opened.append(None)
        elif text[position] == "}" and opened:
            start = opened.pop()
            if start is not None:
                yield start, position
        position += 1
