"""What the site does differently from the files.

Links to files outside `docs/` lead to the repository, and pages that the navigation does not name stand at its end.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\((?P<target>(?:\.\./)+[^)\s#]*)(?P<rest>[^)]*)\)")


def on_config(config: Any, **_: Any) -> Any:
    """Add the pages that `nav` does not name: a new page needs no entry."""
    named = set(_pages(config.nav))
    folder = Path(config.docs_dir)
    others = [str(page.relative_to(folder)) for page in sorted(folder.rglob("*.md"))]
    left = [page for page in others if page not in named]
    if left:
        config.nav = [*config.nav, {"More": left}]
    return config


def _pages(nav: Any) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for content in entry.values():
                yield from _pages([content] if isinstance(content, str) else content)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite links that leave the docs folder.

    Raises:
        FileNotFoundError: such a link leads to no file of the repository.
    """
    folder = posixpath.dirname(page.file.src_uri)

    def rewritten(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found["target"]))
        if path.startswith("docs/"):
            return found[0]
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {found['target']}, which is not in the repository")
        return f"]({config.repo_url.rstrip('/')}/blob/main/{path}{found['rest']})"

    return _LINK.sub(rewritten, markdown)
