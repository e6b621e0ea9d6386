"""What a page is made of: figures, tables, sentences and verdicts, as data that a notebook stores and HTML is made of.

Text out of a run is data in all of them. It is escaped here for a notebook, and by the template for a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Literal

MIME = "application/vnd.grpodyn.block+json"
"""Under this type a notebook's output holds a block as data."""

Level = Literal["good", "note", "warning", "critical", "unknown"]


@dataclass(frozen=True)
class Block:
    """One thing on a page."""

    @property
    def kind(self) -> str:
        """Name of the block's type, as the template knows it."""
        return type(self).__name__.lower()

    def as_html(self) -> str:
        """Return the block for a notebook that is read without the report."""
        raise NotImplementedError

    def as_text(self) -> str:
        """Return the block for a terminal."""
        raise NotImplementedError

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, Any]:
        return {MIME: {"kind": self.kind, **asdict(self)}, "text/html": self.as_html(), "text/plain": self.as_text()}


@dataclass(frozen=True)
class Heading(Block):
    """Begins what is said about one run."""

    text: str

    def as_html(self) -> str:
        """Return a heading below the notebook's own."""
        return f"<h4>{escape(self.text)}</h4>"

    def as_text(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Sentence(Block):
    """Something said in words."""

    text: str
    missing: bool = False
    """Whether it says what cannot be shown, and why."""

    def as_html(self) -> str:
        """Return a paragraph."""
        text = escape(self.text)
        return f"<p><em>Not shown: {text}</em></p>" if self.missing else f"<p>{text}</p>"

    def as_text(self) -> str:
        """Return the sentence."""
        return f"not shown: {self.text}" if self.missing else self.text


@dataclass(frozen=True)
class Command(Block):
    """A line to type."""

    text: str

    def as_html(self) -> str:
        """Return preformatted text."""
        return f"<pre>{escape(self.text)}</pre>"

    def as_text(self) -> str:
        """Return the line."""
        return self.text


@dataclass(frozen=True)
class Verdict(Block):
    """The answer to a question that a reader has; verdicts make up the report's first page."""

    question: str
    answer: str
    level: Level
    run: str = ""
    """Which run it is about; empty if it is about all of them."""
    because: tuple[str, ...] = ()

    def as_html(self) -> str:
        """Return question and answer."""
        reasons = "".join(f"<li>{escape(one)}</li>" for one in self.because)
        return f"<p><strong>{escape(self.question)}</strong> {escape(self.answer)}</p><ul>{reasons}</ul>"

    def as_text(self) -> str:
        """Return question and answer."""
        return "\n  ".join((f"{self.question} {self.answer}", *self.because))


@dataclass(frozen=True)
class Table(Block):
    """Rows under a caption; the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    """Whether it is detail that a reader unfolds."""

    def as_html(self) -> str:
        """Return a table with its caption and headers."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(_html_row(row) for row in self.rows)
        return (
            f"<table><caption>{escape(self.caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def as_text(self) -> str:
        """Return rows with tabs between their cells."""
        return "\n".join([self.caption, "\t".join(self.columns), *("\t".join(row) for row in self.rows)])


@dataclass(frozen=True)
class Picture(Block):
    """A figure at both widths, as SVG."""

    name: str
    title: str
    alt: str
    page: str
    column: str

    def as_html(self) -> str:
        """Return the caption; the notebook shows the picture itself from its own type."""
        return f"<p>{escape(self.title)}</p>"

    def as_text(self) -> str:
        """Return what the figure shows."""
        return f"{self.title}. {self.alt}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, Any]:
        # The wide one is stored once, where every notebook viewer finds it.
        data = {key: value for key, value in asdict(self).items() if key != "page"}
        return {MIME: {"kind": self.kind, **data}, "image/svg+xml": self.page, "text/plain": self.as_text()}


def _html_row(row: Sequence[str]) -> str:
    first, *others = row
    return f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in others)}</tr>'
