"""One page of HTML, whole in itself: nothing in it is fetched, and nothing in it runs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import jinja2
import mistune
from markupsafe import Markup, escape

import grpodyn
from grpodyn.reporting.gathering import Section

TEMPLATES = "grpodyn.templates"
_WORDS = {"good": "fine", "note": "worth knowing", "warning": "look here", "critical": "fault", "unknown": "unknown"}
_ORDER = ("critical", "warning", "unknown", "note", "good")


def render(title: str, runs: Sequence[Any], sections: Sequence[Section], left_out: Sequence[tuple[str, str]]) -> str:
    """Return the report.

    Args:
        title: of the page.
        runs: opened runs, for the table of what this is about.
        sections: what the notebooks say.
        left_out: kinds of notebooks that were not run, and why.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["prose"] = _prose
    environment.filters["data_uri"] = _data_uri
    environment.filters["told"] = _told
    environment.globals["style"] = Markup(_template("style.css"))  # noqa: S704  # our own file
    return environment.get_template("report.html.j2").render(
        title=title,
        runs=[_facts(run) for run in runs],
        sections=sections,
        verdicts=_verdicts(sections),
        words=_WORDS,
        several=len(runs) > 1,
        left_out=left_out,
        failed=[section for section in sections if section.failed is not None],
        version=grpodyn.__version__,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _template(name: str) -> str:
    return (resources.files(TEMPLATES) / name).read_text(encoding="utf-8")


def _verdicts(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return all verdicts, the gravest first; each links to its section."""
    found = [{**verdict, "section": section.kind} for section in sections for verdict in section.verdicts]
    return sorted(found, key=lambda verdict: _ORDER.index(verdict["level"]))


def _facts(run: Any) -> dict[str, str]:
    manifest = run.manifest
    lora = manifest.lora
    return {
        "name": run.path.name,
        "path": str(run.path),
        "id": str(manifest.run_id),
        "status": run.status,
        "step": str(run.last_step) if run.last_step >= 0 else "–",
        "model": str(manifest.model.get("name") or "not stated"),
        "trains": f"LoRA, rank {lora.get('r')}" if lora else "all weights",
        "dataset": str(manifest.dataset.get("name") or "not stated"),
    }


def _prose(text: str) -> Markup:
    """Return Markdown of a notebook's own cells as HTML, one heading level down; HTML in it stays text."""
    deeper = "\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines())
    return Markup(_MARKDOWN(deeper))  # noqa: S704  # made with `escape`


def _told(text: str) -> Markup:
    """Return a sentence as HTML: what stands between backticks is code, and everything is text."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


_MARKDOWN = mistune.create_markdown(escape=True)


def _data_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
