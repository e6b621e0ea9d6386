"""From the rows of a log to the history of one run: canonical names, one row a step, segments, evaluations apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from grpodyn.errors import UnreadableError, UsageError
from grpodyn.importers.json_log import is_closing
from grpodyn.importers.keys import Names, is_evaluation, is_resolved, names_of, tidy
from grpodyn.importers.log import Batch, Log, LogRow

INTERLEAVED_FROM = 0.25
"""Share of rows whose step does not go on from which rows of several runs are mixed, not written one after another."""
SAMPLED_BELOW = 0.7
"""Share of the commonest distance between rows under which a history looks like a sample of one."""
_ENOUGH_TO_TELL = 30
_BESIDE = frozenset({"epoch", "num_tokens", "total_flos", "_runtime"})
_TRACKER_STEP = "_step"


@dataclass(frozen=True)
class Row:
    """One step's scalars under canonical names; nan was logged as NaN or null."""

    step: int
    segment: int
    values: Mapping[str, float]
    time: float | None = None


@dataclass(frozen=True)
class History:
    """What a log says of one run."""

    producer: str
    rows: tuple[Row, ...]
    evaluations: tuple[Row, ...]
    starts: tuple[int, ...]
    """Per segment, the step that it started from."""
    names: Names
    settings: Mapping[str, Any]
    notes: tuple[str, ...]
    left_out: Mapping[str, str]
    batches: tuple[Batch, ...] = ()
    reward_functions: tuple[str, ...] = ()
    sampled: bool = False
    """Whether the rows look like a sample of the steps, not all of them."""


def understand(log: Log, part: int | None = None) -> History:
    """Return the history in a log.

    Args:
        log: as it was read.
        part: which run to take where the log holds several, counted from 1; the longest one if not given.

    Raises:
        UnreadableError: the log holds no row with a number.
        UsageError: there is no run of that number.
    """
    if not log.batches and not any(row.values for row in log.rows):
        raise UnreadableError(f"nothing in this log ({log.producer}) is a row of numbers; is it the right file?")
    notes = list(log.notes)
    rows, had_steps = _with_steps(log.rows)
    if rows and not had_steps:
        notes.append("the log names no step: rows are numbered from 1 in the order they were written")
    if log.step_key == _TRACKER_STEP:
        notes.append("steps are the tracker's own count of calls (_step), not optimizer steps: the log holds no other")
    rows, repeated = _merged(rows)
    if repeated:
        notes.append(f"{repeated} rows stand in the log twice, word for word; once is kept")
    parts = _parts(rows)
    if part is not None and not 1 <= part <= len(parts):
        raise UsageError(f"there is no run {part} in this log; it holds {len(parts)}")
    chosen = part if part is not None else max(range(1, len(parts) + 1), key=lambda i: (len(parts[i - 1]), i))
    if len(parts) > 1:
        lengths = ", ".join(f"{len(p)} rows" for p in parts)
        notes.append(f"the log holds {len(parts)} runs in one ({lengths}); this is run {chosen}, --part takes another")
    segments, starts = _segments(parts[chosen - 1])
    if len(starts) > 1:
        notes.append(
            f"the run was resumed: segments start from steps {', '.join(map(str, starts))}, the later one wins"
        )
    steps = sorted({row.step for _, row in segments if row.step is not None and _is_training(row)})
    sampled = _looks_sampled(steps)
    if sampled:
        notes.append(f"rows stand at irregular steps ({len(steps)} of {steps[-1] - steps[0] + 1}): it looks sampled")
    return _named(log, segments, starts, notes, sampled)


def _named(
    log: Log, segments: Sequence[tuple[int, LogRow]], starts: Sequence[int], notes: list[str], sampled: bool
) -> History:
    training = dict.fromkeys(key for row in log.rows for key in row.values if not is_evaluation(key))
    names = names_of(training)
    rows, evaluations = [], []
    for segment, row in segments:
        held_out = {tidy(key): value for key, value in row.values.items() if is_evaluation(key)}
        own = {key: value for key, value in row.values.items() if not is_evaluation(key)}
        values = {names.canonical[key]: 1 - v if key in names.complement else v for key, v in own.items()}
        step = row.step or 0
        if held_out:
            evaluations.append(Row(step, segment, held_out, row.time))
        if values and not (held_out and set(values) <= _BESIDE):
            rows.append(Row(step, segment, values, row.time))
    return History(
        log.producer,
        tuple(rows),
        tuple(evaluations),
        tuple(starts),
        names,
        log.settings,
        tuple(notes),
        log.left_out,
        log.batches,
        log.reward_functions,
        sampled,
    )


def _is_training(row: LogRow) -> bool:
    return any(not is_evaluation(key) and key not in _BESIDE for key in row.values) and not is_closing(row)


def _with_steps(rows: Sequence[LogRow]) -> tuple[list[LogRow], bool]:
    """Return the rows, each with a step: an evaluation or a summary belongs to the step before it."""
    known = any(row.step is not None for row in rows)
    found: list[LogRow] = []
    last = next((row.step for row in rows if row.step is not None), 0) if known else 0
    for row in rows:
        if not row.values:
            continue
        if row.step is not None:
            last = row.step
        elif not known and _is_training(row):
            last += 1
        found.append(replace(row, step=last))
    return found, known


def _merged(rows: Sequence[LogRow]) -> tuple[list[LogRow], int]:
    """Join neighbours of one step that do not contradict each other; return also how many were word for word equal."""
    found: list[LogRow] = []
    repeated = 0
    for row in rows:
        last = found[-1] if found else None
        if last is None or last.step != row.step or not _agree(last.values, row.values):
            found.append(row)
            continue
        repeated += _same(last.values, row.values)
        time = last.time if last.time is not None else row.time
        found[-1] = LogRow({**last.values, **row.values}, row.step, time)
    return found, repeated


def _agree(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    # A tracker's clock, or a timer that runs several times a step, contradicts nothing.
    return all(_equal(a[key], b[key]) for key in a.keys() & b.keys() if key not in _BESIDE and is_resolved(key))


def _same(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    return a.keys() == b.keys() and _agree(a, b)


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _parts(rows: Sequence[LogRow]) -> list[list[LogRow]]:
    """Return the runs that a log holds: mixed row by row, or one after another."""
    if len(rows) < 2:
        return [list(rows)]
    back = {i for i, (a, b) in enumerate(pairwise(rows), start=1) if (b.step or 0) <= (a.step or 0)}
    counts = Counter(row.step for row in rows)
    if max(counts.values()) == 1:
        return [sorted(rows, key=lambda row: row.step or 0)]
    if len(back) > INTERLEAVED_FROM * len(rows):
        seen: Counter[int | None] = Counter()
        mixed: dict[int, list[LogRow]] = {}
        for row in rows:
            mixed.setdefault(seen[row.step], []).append(row)
            seen[row.step] += 1
        return list(mixed.values())
    first = min(row.step or 0 for row in rows)
    parts: list[list[LogRow]] = [[]]
    for i, row in enumerate(rows):
        # Back at its first step a log begins anew; anywhere else a run was resumed from a checkpoint.
        if i in back and (row.step or 0) <= first:
            parts.append([])
        parts[-1].append(row)
    return [part for part in parts if part]


def _segments(rows: Sequence[LogRow]) -> tuple[list[tuple[int, LogRow]], list[int]]:
    """Return each row with its segment, and the step that each segment started from."""
    starts = [0]
    found: list[tuple[int, LogRow]] = []
    steps = [row.step or 0 for row in rows]
    distances = Counter(b - a for a, b in pairwise(steps) if b > a)
    cadence = distances.most_common(1)[0][0] if distances else 1
    for i, row in enumerate(rows):
        if i and steps[i] <= steps[i - 1] and _is_training(row):
            starts.append(max(0, steps[i] - cadence))
        found.append((len(starts) - 1, row))
    return found, starts


def _looks_sampled(steps: Sequence[int]) -> bool:
    distances = Counter(b - a for a, b in pairwise(steps))
    if sum(distances.values()) < _ENOUGH_TO_TELL:
        return False
    return distances.most_common(1)[0][1] < SAMPLED_BELOW * sum(distances.values()) and len(distances) > 2
