"""Tables: CSV exports of trackers, and what one copies out of a notebook."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from grpodyn.errors import UsageError
from grpodyn.importers.json_log import rows_log
from grpodyn.importers.keys import STEP_KEYS, tidy
from grpodyn.importers.log import Log, number

_BETWEEN = " - "
_ENVELOPE = ("__MIN", "__MAX")
_STEPS = frozenset({*STEP_KEYS, "epoch"})
_RULE = re.compile(r"^[\s|:+=-]+$")
# What stands in printed values and not in names: a line of them has commas too.
_NOT_IN_NAMES = frozenset("{}[]'\"=")
_LONGEST_NAME = 200
# A field may hold a sampled text.
_LONGEST_FIELD = 1 << 26


def from_text(text: str, run: str | None = None) -> Log | None:
    """Return the log in a table with a header, or None if the text is no such table.

    Args:
        text: CSV, tab-separated, a Markdown table, or columns kept apart by two spaces or more.
        run: which run to take, where an export holds several.

    Raises:
        UsageError: it holds several runs, and `run` names none of them.
    """
    rows = _cells(text)
    if rows is None or len(rows) < 2:
        return None
    header = [cell.strip() for cell in rows[0]]
    if not _is_header(header):
        return None
    entries = [dict(zip(header, row, strict=False)) for row in rows[1:] if any(cell.strip() for cell in row)]
    prefixed = [name for name in header if _BETWEEN in name]
    if prefixed:
        return _exported(header, entries, run)
    envelope = [name for name in header if name.endswith(_ENVELOPE)]
    log = rows_log("a table", [_lowered(entry, envelope) for entry in entries])
    return Log(log.producer, log.rows, left_out={**log.left_out, **_bounds(envelope)}, step_key=log.step_key)


def _cells(text: str) -> list[list[str]] | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    first = lines[0]
    if first.lstrip().startswith(("{", "[")):
        return None
    if first.lstrip().startswith("|"):
        return [line.strip().strip("|").split("|") for line in lines if not _RULE.match(line)]
    for separator in ("\t", ",", ";"):
        if separator in first:
            csv.field_size_limit(_LONGEST_FIELD)
            try:
                return list(csv.reader(io.StringIO(text), delimiter=separator))
            except csv.Error:
                return None
    apart = [re.split(r"\s{2,}", line.strip()) for line in lines]
    widths = Counter(len(cells) for cells in apart)
    return apart if len(apart[0]) > 1 and widths.most_common(1)[0][0] == len(apart[0]) else None


def _is_header(cells: Sequence[str]) -> bool:
    named = [cell for cell in cells if cell]
    if any(len(cell) > _LONGEST_NAME or set(cell) & _NOT_IN_NAMES for cell in named):
        return False
    return bool(named) and all(number(cell) is None for cell in named) and any(_is_known(cell) for cell in named)


def _is_known(cell: str) -> bool:
    plain = tidy(cell.rsplit(_BETWEEN, 1)[-1]).lower()
    return plain in _STEPS or any(word in plain for word in ("reward", "loss", "step"))


def _lowered(entry: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """Return a row with its step under the name it has elsewhere (`Step` in notebooks and exports)."""
    return {name.lower() if name.lower() in STEP_KEYS else name: v for name, v in entry.items() if name not in without}


def _bounds(names: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(names, "the bounds of a smoothed or sampled point, not a value")


def _exported(header: Sequence[str], entries: Sequence[Mapping[str, Any]], wanted: str | None) -> Log:
    """Return the log of an export with columns such as `run - train/reward` and `run - train/reward__MIN`."""
    runs = list(dict.fromkeys(name.rpartition(_BETWEEN)[0] for name in header if _BETWEEN in name))
    if wanted is not None and wanted not in runs:
        raise UsageError(f"the table holds no run {wanted!r}; it holds: {', '.join(runs)}")
    if wanted is None and len(runs) > 1:
        raise UsageError(f"the table holds {len(runs)} runs ({', '.join(runs)}); choose one of them with --run NAME")
    run = wanted or runs[0]
    envelope = [name for name in header if name.endswith(_ENVELOPE)]
    rows = []
    for entry in entries:
        row: dict[str, Any] = {}
        for name, value in entry.items():
            owner, _, key = name.rpartition(_BETWEEN)
            if name not in envelope and owner in ("", run):
                row[key or name] = value
        if any(str(value).strip() for key, value in row.items() if key.lower() not in STEP_KEYS):
            rows.append(_lowered(row, ()))
    log = rows_log("a W&B export (CSV)", rows)
    others = [name for name in header if _BETWEEN in name and name.rpartition(_BETWEEN)[0] != run]
    left_out = {**log.left_out, **_bounds(envelope), **dict.fromkeys(others, "of another run")}
    return Log(log.producer, log.rows, {}, (f"the run {run!r} of the export",), left_out, step_key=log.step_key)
