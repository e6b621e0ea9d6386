"""Observations of a log, straight from its rows: no run directory, no torch, no xarray."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grpodyn.diagnosis.groups import Groups, groups_of
from grpodyn.diagnosis.observations import NonFinite, Observations, Record
from grpodyn.diagnosis.series import Floats, Series
from grpodyn.importers.history import History, Row
from grpodyn.importers.json_log import is_closing
from grpodyn.importers.log import LogRow


def observe_history(history: History, source: str, config: Mapping[str, Any] | None = None) -> Observations:
    """Return what a log shows.

    Args:
        history: the log's history of one run.
        source: where it comes from.
        config: the run config it was trained with, if it is known.
    """
    rows = _last_of_each_step(history)
    settings = {**dict(history.settings), **dict((config or {}).get("grpo") or {})}
    lora = (config or {}).get("lora")
    if lora is None and "lora_r" in settings:
        lora = {"r": settings["lora_r"]}
    model = (config or {}).get("model")
    return Observations(
        source=source,
        steps=np.array([row.step for row in rows], dtype=np.int64),
        columns=columns_of([row.values for row in rows]),
        settings=settings,
        lora=lora,
        dtype=model.get("dtype") if isinstance(model, Mapping) else None,
        evaluations=_evaluations(history.evaluations),
        groups=_groups(history),
        non_finite=_non_finite(rows),
        record=Record(
            "finished", True, history.producer, history.sampled, tuple(history.notes), ("tensors, layers and spectra",)
        ),
        config=config,
    )


def columns_of(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Return the columns of rows, nan where a row does not hold a key."""
    columns: dict[str, Floats] = {}
    for i, values in enumerate(rows):
        for name, value in values.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = np.full(len(rows), np.nan)
            column[i] = value
    return columns


def _last_of_each_step(history: History) -> list[Row]:
    """Return the rows that count: of a step that two segments hold, the later one's; without the closing summary."""
    kept: list[Row] = []
    for row in history.rows:
        if is_closing(LogRow(row.values)):
            continue
        start = history.starts[row.segment]
        while kept and kept[-1].segment < row.segment and kept[-1].step > start:
            kept.pop()
        kept.append(row)
    return kept


def _evaluations(rows: Sequence[Row]) -> dict[str, Series]:
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.values.items():
            if math.isfinite(value):
                found.setdefault(name, []).append((row.step, value))
    return {
        name: Series(np.array([s for s, _ in points], dtype=np.int64), np.array([v for _, v in points]))
        for name, points in found.items()
    }


def _groups(history: History) -> Groups | None:
    shapes = {batch.rewards.shape for batch in history.batches}
    if len(shapes) != 1:
        return None
    steps = np.array([batch.step for batch in history.batches], dtype=np.int64)
    total = np.stack([batch.reward for batch in history.batches])
    rewards = np.stack([batch.rewards for batch in history.batches])
    return groups_of(steps, total, rewards, None, history.reward_functions)


def _non_finite(rows: Sequence[Row]) -> tuple[NonFinite, ...]:
    """Return, per key that was finite before, the first row that holds NaN or Inf under it and goes on doing so."""
    finite: set[str] = set()
    open_since: dict[str, int] = {}
    for row in rows:
        for name, value in row.values.items():
            if math.isfinite(value):
                finite.add(name)
                open_since.pop(name, None)
            elif name in finite:
                open_since.setdefault(name, row.step)
    return tuple(NonFinite(step, name) for name, step in open_since.items())
