"""JSON logs: `trainer_state.json`, lists of rows, one object a line, summaries that hold series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpodyn.importers.keys import CLOSING, STEP_KEYS, TIME_KEYS
from grpodyn.importers.log import Log, LogRow, flattened, number

# Where a document keeps its rows, if it is no list itself.
_ROWS = ("log_history", "step_log", "history", "logs", "metrics", "steps", "rows", "data")
# Names that a summary gives to the trainer's arguments.
_SETTINGS = {
    "lr": "learning_rate",
    "group": "num_generations",
    "group_size": "num_generations",
    "rank": "lora_r",
    "steps": "max_steps",
    "kl_coef": "beta",
    "max_tokens": "max_completion_length",
}
_KNOWN_SETTINGS = (
    "learning_rate", "num_generations", "max_steps", "beta", "max_completion_length", "logging_steps", "temperature",
    "num_iterations", "seed", "train_batch_size", "num_train_epochs", "model", "task",
)  # fmt: skip
_LAST_STEP = 2**53
"""What is larger is no count of steps, and a number of JSON no longer holds it exactly."""
_SERIES = ("reward_trace", "rewards", "reward_history", "reward")


def from_document(document: Any) -> Log | None:
    """Return the log that a JSON document holds, or None if it holds none."""
    if isinstance(document, list):
        entries = [entry for entry in document if isinstance(entry, Mapping)]
        return rows_log("a list of rows (JSON)", entries) if entries else None
    if not isinstance(document, Mapping):
        return None
    for key in _ROWS:
        rows = document.get(key)
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            producer = "trainer_state.json" if key == "log_history" else f"JSON with rows under {key!r}"
            return _with_settings(rows_log(producer, rows), document)
    columns = {key: value for key, value in document.items() if _is_series(value)}
    if columns:
        return _with_settings(_from_columns(columns), document)
    single = rows_log("one row (JSON)", [document])
    return single if any(row.values for row in single.rows) else None


def rows_log(producer: str, entries: Sequence[Mapping[Any, Any]]) -> Log:
    """Return the log of entries in the order they were written."""
    flat = [dict(flattened(entry)) for entry in entries]
    step_key = step_key_of(flat)
    rows: list[LogRow] = []
    left_out: dict[str, str] = {}
    for entry in flat:
        row, texts = row_of(entry, step_key)
        left_out |= texts
        rows.append(row)
    known = {key for row in rows for key in row.values}
    return Log(
        producer,
        tuple(rows),
        left_out={key: why for key, why in left_out.items() if key not in known},
        step_key=step_key,
    )


def step_key_of(entries: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the key that holds the optimizer's step, the best that most entries have; None where none does."""
    entries = list(entries)
    counts = {key: sum(key in entry for entry in entries) for key in STEP_KEYS}
    # A closing summary or a system row may lack it.
    usable = [key for key in STEP_KEYS if counts[key] >= 0.3 * len(entries) and counts[key]]
    return usable[0] if usable else next((key for key in STEP_KEYS if counts[key]), None)


def row_of(entry: Mapping[str, Any], step_key: str | None) -> tuple[LogRow, dict[str, str]]:
    """Return an entry as a row, and why some of its keys are no metric."""
    values: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for key, value in entry.items():
        if key in STEP_KEYS or key in TIME_KEYS:
            continue
        found = number(value)
        if found is not None:
            values[key] = found
        elif isinstance(value, str) and value.strip():
            left_out[key] = "text"
        elif not isinstance(value, str):
            left_out[key] = f"a {type(value).__name__}, no number"
    step = _step(entry.get(step_key)) if step_key is not None else None
    time = next((t for key in TIME_KEYS if (t := number(entry.get(key, ""))) is not None and math.isfinite(t)), None)
    return LogRow(values, step, time if time is not None and time > 1e8 else None), left_out


def _step(value: object) -> int | None:
    # ms-swift writes "10/100".
    found = number(value.split("/")[0] if isinstance(value, str) else value)
    return int(found) if found is not None and 0 <= found <= _LAST_STEP else None


def _is_series(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, int | float | None) for v in value)


def _from_columns(columns: Mapping[str, Sequence[Any]]) -> Log:
    length = max(len(values) for values in columns.values())
    kept = {key: values for key, values in columns.items() if len(values) == length}
    steps = next((kept.pop(key) for key in STEP_KEYS if key in kept), None)
    entries = []
    for i in range(length):
        entry: dict[str, Any] = {key: values[i] for key, values in kept.items()}
        entries.append(entry | ({"step": steps[i]} if steps is not None else {}))
    log = rows_log("series of equal length (JSON)", entries)
    shorter = {key: f"{len(v)} values beside {length}" for key, v in columns.items() if len(v) != length}
    return Log(log.producer, log.rows, left_out={**log.left_out, **shorter}, step_key=log.step_key)


def _with_settings(log: Log, document: Mapping[str, Any]) -> Log:
    settings = {key: document[key] for key in _KNOWN_SETTINGS if _is_plain(document.get(key))}
    for short, name in _SETTINGS.items():
        if _is_plain(document.get(short)) and name not in settings:
            settings[name] = document[short]
    return Log(log.producer, log.rows, settings, log.notes, log.left_out, step_key=log.step_key)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def is_closing(row: LogRow) -> bool:
    """Return whether a row is the summary that a transformers trainer logs last: it is of no step of its own."""
    return bool(CLOSING & set(row.values)) and not {"loss", "reward", "grad_norm"} & set(row.values)
