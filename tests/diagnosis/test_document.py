"""The docs page is what the rules say."""

from __future__ import annotations

from pathlib import Path

from grpodyn.diagnosis.document import markdown
from grpodyn.diagnosis.rule import rules

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_up_to_date() -> None:
    assert (DOCS / "diagnose.md").read_text() == markdown(), "run python -m grpodyn.diagnosis.document"


def test_every_rule_declares_itself_in_full() -> None:
    for name, rule in rules().items():
        assert rule.id == name
        for text in (rule.title, rule.meaning, rule.change, rule.reference):
            assert len(text) > 10, name
        assert not rule.title.endswith("."), name
        assert set(rule.follows_from) <= set(rules()), name
