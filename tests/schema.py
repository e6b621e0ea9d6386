"""What a command printed, held against the JSON Schema in the docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from grpodyn.cli.schemas import FOLDER

ROOT = Path(__file__).parents[1]


def schema(command: str) -> dict[str, Any]:
    """Return the schema of a command."""
    found: dict[str, Any] = json.loads((ROOT / FOLDER / f"{command}.json").read_text(encoding="utf-8"))
    return found


def must_fit(command: str, printed: Any) -> None:
    """Hold what `grpodyn COMMAND --json` printed against its schema.

    Raises:
        jsonschema.ValidationError: it does not fit.
    """
    jsonschema.Draft202012Validator(schema(command)).validate(printed)
