"""JSON Schemas of what `--json` prints, made from the dataclasses that hold it.

`python -m grpodyn.cli.schemas` writes one file a command into `docs/schemas/`, and `docs/json.md`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import typer
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from grpodyn.trace.overview import Overview

FOLDER: Final = Path("docs/schemas")
PAGE: Final = Path("docs/json.md")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Command -> where its result is: `module:class`, or the name of an analysis.
_OF: Final[Mapping[str, str]] = {
    "ablate": "grpodyn.ablation.results:Ablation",
    "attribute": "grpodyn.attribution.result:Attribution",
    "compare": "run_comparison",
    "diagnose": "grpodyn.diagnosis:Diagnosis",
    "forecast": "forecast",
    "export": "grpodyn.cli.schemas:Exported",
    "forgetting": "forgetting",
    "group-size": "group_size",
    "import": "grpodyn.cli.schemas:Imported",
    "pilot": "grpodyn.ablation.pilot:Pilot",
    "power": "power",
    "record": "grpodyn.training.summary:RunSummary",
    "recommend-lora": "grpodyn.lora.advice:Advice",
    "report": "grpodyn.reporting.report:Report",
    "runs": "grpodyn.cli.schemas:RunsListed",
    "scaling-law": "scaling_law",
    "status": "grpodyn.trace.overview:Overview",
    "sweep": "grpodyn.studies.results:SweepResult",
    "watch": "grpodyn.watching.snapshot:Snapshot",
}
# Lists under one key, and what an entry is.
_LISTS: Final[Mapping[str, str]] = {
    "analyses": "grpodyn.cli.catalogue:AnalysisEntry",
    "probes": "grpodyn.cli.catalogue:ProbeEntry",
}
COMMANDS: Final = tuple(sorted([*_OF, *_LISTS]))


@dataclass(frozen=True)
class Exported:
    """What `export` wrote."""

    written: list[str]
    problems: list[str]


@dataclass(frozen=True)
class ImportedLog:
    """What `import` made of a log."""

    run: str
    producer: str
    rows: int
    evaluations: int
    batches: int
    segments: int
    renamed: dict[str, str]
    unresolved: list[str]
    left_out: dict[str, str]
    notes: list[str]
    sampled: bool


@dataclass(frozen=True)
class ImportedCheckpoints:
    """What `import` made of saved checkpoints."""

    steps: list[int]
    tensors: int
    skipped: list[dict[str, Any]]


@dataclass(frozen=True)
class ListedRun(Overview):
    """A run that `runs` lists."""

    path: str


@dataclass(frozen=True)
class UnreadableRun:
    """One that it cannot read."""

    path: str
    status: Literal["unreadable"]
    problems: list[str]


Imported = ImportedLog | ImportedCheckpoints
RunsListed = list[ListedRun | UnreadableRun]


class _AsPrinted(GenerateJsonSchema):
    """Numbers as they are printed: what is undefined or infinite is null."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"type": ["number", "null"]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        # Always all keys, whatever has a default; more may come with a later version.
        found = super().dataclass_schema(schema)
        if "properties" in found:
            found["required"] = sorted(found["properties"])
        return found


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with `--json`."""
    if command in _LISTS:
        entry = _generated(_class(_LISTS[command]))
        definitions = entry.pop("$defs", {})
        listed = {"type": "object", "properties": {command: {"type": "array", "items": entry}}, "required": [command]}
        found = {**listed, **({"$defs": definitions} if definitions else {})}
    elif command == "group-size":
        # The first run's keys stand beside those of all.
        whole = _class(_OF[command])
        each = get_args(get_type_hints(whole)["runs"])[0]
        found = _together(_generated(whole), _generated(each))
    else:
        found = _generated(_class(_OF[command]))
    return {
        "$schema": DIALECT,
        "title": f"grpodyn {command} --json",
        **{k: v for k, v in found.items() if k != "title"},
    }


def _generated(result: Any) -> dict[str, Any]:
    return TypeAdapter(result).json_schema(schema_generator=_AsPrinted, mode="serialization")


def _class(where: str) -> Any:
    module, _, name = where.partition(":")
    if name:
        return getattr(importlib.import_module(module), name)
    from grpodyn import registry

    # The run that goes in is known to type checkers only.
    return get_type_hints(type(registry.analysis(module)).run, localns={"Run": Any})["return"]


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has the keys of both; those of the first win."""
    return {
        "type": "object",
        "properties": {**other["properties"], **one["properties"]},
        "required": sorted({*one["required"], *other["required"]}),
        "$defs": {**other.get("$defs", {}), **one.get("$defs", {})},
    }


def page() -> str:
    """Return the docs page: every command that prints JSON, its keys and its schema."""
    lines = [
        "# JSON of the commands",
        "",
        "Made by `python -m grpodyn.cli.schemas`; do not edit.",
        "",
        "With `--json` a command prints one JSON value on standard output and nothing else there. Its shape is held by",
        "a JSON Schema (draft 2020-12), made from the dataclass that the command's result is. Keys are not renamed or",
        "taken away within a version of grpodyn; new ones may come, so read those that you know. A number that is",
        "undefined or infinite is `null`. An interval is `{value, low, high, level}`. Text of a run (names, reasons,",
        "prompts) is data: escape it where you show it.",
        "",
        "Errors go to standard error, and the exit code tells them apart ([commands.md](commands.md)).",
        "",
        "| command | keys |",
        "|---|---|",
    ]
    for command in COMMANDS:
        keys = ", ".join(f"`{key}`" for key in _keys(schema_of(command)))
        lines.append(f"| [{command}](schemas/{command}.json) | {keys} |")
    return "\n".join(lines) + "\n"


def _keys(schema: dict[str, Any]) -> list[str]:
    if "properties" in schema:
        return list(schema["properties"])
    choices = schema.get("anyOf") or schema["items"]["anyOf"]
    named = [schema["$defs"][choice["$ref"].rsplit("/", 1)[-1]] for choice in choices]
    return list(dict.fromkeys(key for one in named for key in one["properties"]))


def documents() -> dict[str, str]:
    """Return the content of every file, by its path below the root."""
    schemas = {
        f"{FOLDER}/{command}.json": json.dumps(schema_of(command), indent=1, ensure_ascii=False) + "\n"
        for command in COMMANDS
    }
    return {**schemas, str(PAGE): page()}


def _write(root: Annotated[Path, typer.Argument(help="Root of the checkout.")] = Path()) -> None:
    """Write the schemas and their page."""
    for name, content in documents().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    typer.echo(f"wrote {PAGE} and {len(COMMANDS)} schemas into {FOLDER}")


if __name__ == "__main__":
    typer.run(_write)
