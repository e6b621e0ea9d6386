"""`commit.json`: how many rows of each group are whole. Replaced last in every flush; a reader trims to it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from grpodyn.errors import SchemaError
from grpodyn.trace import strict_json
from grpodyn.trace.schema import COMMIT, SCHEMA_VERSION

_MOST: Final = 1 << 31
"""More than any run holds: a reader makes room for what is counted."""


@dataclass
class Commit:
    """Committed rows per group, and entries per dimension of each group.

    Stored dimensions are longer: they grow in blocks.
    """

    rows: dict[str, int] = field(default_factory=dict)
    axes: dict[str, dict[str, int]] = field(default_factory=dict)

    def write(self, run_dir: Path) -> None:
        """Replace `commit.json`."""
        content = {"schema_version": SCHEMA_VERSION, "rows": self.rows, "axes": self.axes, "time": time.time()}
        strict_json.replace_file(run_dir / COMMIT, strict_json.dumps(content).encode())

    @classmethod
    def read(cls, run_dir: Path) -> Commit | None:
        """Read `commit.json`, or return None where there is none.

        Raises:
            SchemaError: it does not parse, or holds what no writer counts.
        """
        path = run_dir / COMMIT
        try:
            content = strict_json.read(path)
            axes = {group: _counts(f"axes.{group}", sizes) for group, sizes in content["axes"].items()}
            return cls(_counts("rows", content["rows"]), axes)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"{path} is damaged ({error}); `grpodyn status --repair` counts the rows anew") from error


def _counts(what: str, stored: Any) -> dict[str, int]:
    for name, count in stored.items():
        if type(count) is not int or not 0 <= count < _MOST:
            raise ValueError(f"{what}.{name} is {count!r}, expected a count")
    return dict(stored)
