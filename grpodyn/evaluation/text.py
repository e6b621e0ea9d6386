"""Held-out text, cut into windows of tokens. Torch-free."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn.errors import ConfigError, did_you_mean
from grpodyn.evaluation.token_scores import Row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHIPPED = Path(__file__).parent / "texts"
"""Texts that come with the package, for the embedded model: its tokenizer has 17 characters."""
MOST_UNKNOWN = 0.01
"""Share of tokens that a tokenizer may not know."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Document:
    """Text to score, after text that is given."""

    text: str
    given: str = ""


@dataclass(frozen=True)
class HeldOutText:
    """A named text."""

    name: str
    documents: tuple[Document, ...]

    @property
    def digest(self) -> str:
        """Tells texts of one name apart."""
        joined = "\x00".join(f"{one.given}\x01{one.text}" for one in self.documents)
        return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class Windows:
    """A text as a model sees it: rows to score, and the words in each."""

    rows: tuple[Row, ...]
    words: tuple[int, ...]
    """Words that begin in the scored tokens of each row."""


def shipped_texts() -> list[str]:
    """Return the names of the texts that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.jsonl"))


def read_text(source: str) -> HeldOutText:
    """Return a text by the name of one that is shipped, or from a file.

    A `.jsonl` file holds a document a line, as `{"text": …}`, with `"prompt": …` if something goes before it that is
    not scored. Any other file is one document.

    Raises:
        ConfigError: there is no such text, or it holds nothing to score.
    """
    path = SHIPPED / f"{source}.jsonl" if source in shipped_texts() else Path(source).expanduser()
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = shipped_texts()
        raise ConfigError(
            f"evaluate.texts: {source!r} cannot be read ({error}){did_you_mean(source, known)}; give a text file, or "
            f"one of {', '.join(known)}"
        ) from error
    documents = tuple(_documents(content, path)) if path.suffix == ".jsonl" else (Document(content),)
    if not any(document.text.strip() for document in documents):
        raise ConfigError(f"evaluate.texts: {source!r} holds no text")
    return HeldOutText(path.stem, documents)


def _documents(content: str, path: Path) -> Iterator[Document]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            yield Document(_string(entry["text"]), _string(entry.get("prompt", "")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f'{path}, line {number}: expected {{"text": "…"}}, with "prompt" if something is given before it'
            ) from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def windows(text: HeldOutText, tokenizer: PreTrainedTokenizerBase, length: int, most: int) -> Windows:
    """Return a text as windows of at most `length` scored tokens, the first `most` of them.

    Every window but a document's first is given the token before it. A document's very first token is scored only after
    a prompt, or a token that the tokenizer puts in front.

    Raises:
        ConfigError: the tokenizer does not know the text, or nothing of it can be scored.
    """
    rows: list[Row] = []
    words: list[int] = []
    unknown = tokens = 0
    for document in text.documents:
        given = list(tokenizer(document.given)["input_ids"]) if document.given else []
        ids, begins = _encode(document.text, tokenizer, alone=not given)
        unknown += sum(token == tokenizer.unk_token_id for token in ids) if tokenizer.unk_token_id is not None else 0
        tokens += len(ids)
        if not given:
            given, ids, begins = ids[:1], ids[1:], begins[1:]
        for start in range(0, len(ids), length):
            part = slice(start, start + length)
            rows.append(Row(tuple(given if start == 0 else ids[start - 1 : start]), tuple(ids[part])))
            words.append(sum(begins[part]))
        if len(rows) >= most:
            break
    if unknown > MOST_UNKNOWN * tokens:
        raise ConfigError(
            f"evaluate.texts: the tokenizer does not know {unknown / tokens:.0%} of the tokens of {text.name!r}; give "
            "a text that the model can read"
        )
    if not rows:
        raise ConfigError(f"evaluate.texts: {text.name!r} is too short: no token has one before it")
    return Windows(tuple(rows[:most]), tuple(words[:most]))


def _encode(text: str, tokenizer: PreTrainedTokenizerBase, alone: bool) -> tuple[list[int], list[int]]:
    """Return the tokens, and how many words begin in each."""
    if not tokenizer.is_fast:
        ids = list(tokenizer(text, add_special_tokens=alone)["input_ids"])
        pieces = [tokenizer.decode(ids[: i + 1]) for i in range(len(ids))]
        counts = [len(piece.split()) for piece in pieces]
        return ids, [after - before for before, after in zip([0, *counts], counts, strict=False)]
    encoded = tokenizer(text, add_special_tokens=alone, return_offsets_mapping=True)
    starts = {match.start() for match in _WORD.finditer(text)}
    begins = [sum(position in starts for position in range(a, b)) for a, b in encoded["offset_mapping"]]
    return list(encoded["input_ids"]), begins
