"""The docs build into a site without a warning; nothing in them leads nowhere, and everything is in them."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from grpodyn import registry
from grpodyn.cli.schemas import COMMANDS
from tests.docs.blocks import PAGES, ROOT

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if not urlsplit(target).scheme:
            path = page.parent / unquote(target.split("#")[0]) if target.split("#")[0] else page
            assert path.exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("name", [*registry.probes(), *registry.analyses(), *COMMANDS])
def test_everything_appears_in_the_docs(name: str) -> None:
    written = (ROOT / "docs" / "catalogue.md").read_text() + (ROOT / "docs" / "commands.md").read_text()
    assert re.search(rf"^##+ {re.escape(name)}$", written, re.MULTILINE)


class Requests(HTMLParser):
    """Collects what a page loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe") and values.get("src"):
            self.urls.append(str(values["src"]))
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.urls.append(str(values["href"]))


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(site.rglob("*.html"))
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert f'href="{name}"' in (site / "index.html").read_text(encoding="utf-8").replace("./", ""), (
            f"no way to {name}"
        )
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not [url for url in Requests(text).urls if urlsplit(url).netloc], page.name
        assert 'href="../../' not in text
    assert "blob/main/examples/trl_one_line.py" in (site / "quick-start.html").read_text(encoding="utf-8")
