"""Tables in pages that people write."""

import pytest

from grpodyn.reporting.published import put


def test_words_around_the_tables_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Mine\n\nwords\n\n<!-- tables: begin -->\nold\n<!-- tables: end -->\n\nmore words\n")
    put(page, "| new |\n")
    text = page.read_text()
    assert text == "# Mine\n\nwords\n\n<!-- tables: begin -->\n\n| new |\n\n<!-- tables: end -->\n\nmore words\n"
    put(page, "| new |\n")
    assert page.read_text() == text


def test_a_page_can_have_several_places_and_one_without_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- a: begin -->\n<!-- a: end -->\n<!-- b: begin -->\n<!-- b: end -->\n")
    put(page, "of b", "b")
    assert page.read_text() == "<!-- a: begin -->\n<!-- a: end -->\n<!-- b: begin -->\n\nof b\n<!-- b: end -->\n"
    with pytest.raises(ValueError, match="has no lines"):
        put(page, "of c", "c")
    assert "of c" not in page.read_text()


def test_a_page_that_is_not_there_is_begun(tmp_path):
    put(tmp_path / "new.md", "tables")
    assert (tmp_path / "new.md").read_text().startswith("# Results\n")
