"""Held-out text as windows of tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import ConfigError
from grpodyn.evaluation.text import Document, HeldOutText, read_text, shipped_texts, windows
from grpodyn.tasks import task

A, B = 3, 4


def text(*documents: Document) -> HeldOutText:
    return HeldOutText("t", documents)


def test_a_document_is_cut_into_windows_that_see_the_token_before(toy_tokenizer) -> None:
    found = windows(text(Document("abbab")), toy_tokenizer, length=2, most=10)
    assert [(row.given, row.scored) for row in found.rows] == [((A,), (B, B)), ((B,), (A, B))]


def test_a_prompt_is_given_and_not_scored(toy_tokenizer) -> None:
    found = windows(text(Document("ba", given="ab"), Document("b", given="a")), toy_tokenizer, length=5, most=10)
    assert [(row.given, row.scored) for row in found.rows] == [((A, B), (B, A)), ((A,), (B,))]


def character_tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel({"<unk>": 2, "a": A, "b": B, " ": 5}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def test_words_are_counted_where_they_begin() -> None:
    # The first token is not scored, so neither is the word that begins in it.
    found = windows(text(Document("ab bab a")), character_tokenizer(), length=3, most=10)
    # Scored: `b`, ` `, `b` | `a`, `b`, ` ` | `a`.
    assert found.words == (1, 0, 1)


@settings(deadline=None)
@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=4), st.integers(1, 5))
def test_every_token_but_a_documents_first_is_scored_once(documents: list[str], length: int) -> None:
    tokenizer = character_tokenizer()
    if all(len(document) == 1 for document in documents):
        with pytest.raises(ConfigError, match="too short"):
            windows(text(*map(Document, documents)), tokenizer, length, most=100)
        return
    found = windows(text(*map(Document, documents)), tokenizer, length, most=100)
    scored = [token for row in found.rows for token in row.scored]
    assert scored == [A if c == "a" else B for document in documents for c in document[1:]]
    assert all(1 <= len(row.scored) <= length for row in found.rows)


def test_at_most_so_many_windows(toy_tokenizer) -> None:
    assert len(windows(text(Document("ab" * 50)), toy_tokenizer, length=5, most=3).rows) == 3


def test_a_text_that_the_tokenizer_does_not_know(toy_tokenizer) -> None:
    with pytest.raises(ConfigError, match="does not know 67% of the tokens of 't'"):
        windows(text(Document("xya")), toy_tokenizer, length=5, most=3)


def test_files(tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("one\ntwo", encoding="utf-8")
    assert read_text(str(plain)) == HeldOutText("plain", (Document("one\ntwo"),))
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"text": "a"}) + "\n\n" + json.dumps({"prompt": "p", "text": "b"}) + "\n")
    assert read_text(str(lines)) == HeldOutText("lines", (Document("a"), Document("b", "p")))
    assert read_text(str(plain)).digest != read_text(str(lines)).digest


@pytest.mark.parametrize("line", ['{"tex": "a"}', '{"text": 3}', "[1]", "{"])
def test_lines_that_hold_no_text(tmp_path: Path, line: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(line)
    with pytest.raises(ConfigError, match=r"bad\.jsonl, line 1"):
        read_text(str(file))


def test_texts_that_are_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'other_formats'"):
        read_text("other_format")
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ConfigError, match="holds no text"):
        read_text(str(tmp_path / "empty.txt"))


def test_what_is_shipped_suits_the_embedded_model_and_is_new_to_training() -> None:
    assert shipped_texts() == ["other_formats", "stories"]
    shipped = read_text("other_formats")
    assert len(windows(shipped, build_tokenizer(), 64, 1000).rows) == 300
    trained_on = set(task("arithmetic_format").split("train").prompts)
    assert not trained_on & {document.given for document in shipped.documents}
    # Right, but in a format that earns nothing.
    answers = dict(
        zip(*[getattr(task("arithmetic_format").split("confirm"), f) for f in ("prompts", "answers")], strict=True)
    )
    for document in shipped.documents:
        right = answers[document.given].removesuffix(".0")
        assert document.text in (right, f"[{right}]", f"#{right}")
