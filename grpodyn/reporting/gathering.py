"""From executed notebooks to the parts of a report: prose, blocks, and what failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grpodyn.reporting.blocks import MIME
from grpodyn.reporting.execution import Executed

SUMMARY = "summary"


@dataclass
class Section:
    """One notebook, as the report shows it."""

    kind: str
    title: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    """Blocks as data; of kind `prose` with `text` in Markdown, else as `grpodyn.reporting.blocks` makes them."""
    summary: list[dict[str, Any]] = field(default_factory=list)
    """What cells tagged `summary` show: it stands on the report's first page instead."""
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None


def gather(executed: Executed, only_run: str) -> Section:
    """Return what a notebook says.

    Args:
        executed: the notebook.
        only_run: name of the run, if the report is about one alone; else empty.
    """
    section = Section(executed.kind, failed=executed.failed)
    run = only_run
    for cell in executed.notebook.cells:
        parts = section.summary if SUMMARY in cell.metadata.get("tags", ()) else section.parts
        if cell.cell_type == "markdown":
            run = only_run
            _add_prose(section, parts, cell.source)
        for output in cell.get("outputs", ()):
            block = _block(output)
            if block is None:
                continue
            if block["kind"] == "heading":
                run = str(block["text"])
            if block["kind"] == "verdict":
                block = {**block, "run": block["run"] or run}
                section.verdicts.append(block)
            parts.append(block)
    return section


def _add_prose(section: Section, parts: list[dict[str, Any]], source: str) -> None:
    first, _, rest = source.partition("\n")
    if first.startswith("# "):
        section.title = first.removeprefix("# ").strip()
        source = rest.strip()
    if source:
        parts.append({"kind": "prose", "text": source})


def _block(output: Any) -> dict[str, Any] | None:
    if output.output_type == "error":
        return {"kind": "sentence", "text": f"this failed: {output.ename}: {output.evalue}", "missing": True}
    data = output.get("data", {})
    block = data.get(MIME)
    if block is None:
        return None
    return {**block, "page": data["image/svg+xml"]} if block["kind"] == "picture" else dict(block)
