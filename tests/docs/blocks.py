"""Finds the code blocks of the docs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
# A block that runs elsewhere, or cannot run, has an HTML comment on the line above it: readers do not see it, and no
# renderer takes it for a part of the fence.
_FENCE = re.compile(
    r"(?:^<!-- (?P<note>.*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    """Of its first line of code."""
    language: str
    code: str
    note: str | None
    """What the comment above it says: where else it runs, or why it does not."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """Return the blocks in these languages; the empty one is that of commands."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            found.append(Block(page, line, match["language"], match["code"], match["note"]))
    return [block for block in found if block.language in languages]
