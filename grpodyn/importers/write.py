"""Writes a history into an ordinary run directory, which says that it was imported, and from what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.errors import UnreadableError
from grpodyn.importers.history import History, Row
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

SOURCE = "import"
"""`recorder.source` of a run that was imported."""
_LORA_SETTING = "lora_r"
_EVENTS_OF_ONE_KIND = 20


def write_history(history: History, run_dir: Path, origin: str, config: Mapping[str, Any] | None = None) -> None:
    """Write a run.

    Args:
        history: what a log says of one run.
        run_dir: an absent or empty directory.
        origin: where the log comes from, for the manifest.
        config: the run config it was trained with, if it is known.

    Raises:
        DirectoryInUseError: the directory holds something.
        UnreadableError: the disk took no more.
    """
    writer = TraceWriter.create(run_dir, manifest_of(history, origin, config))
    writer.declare_reward_functions(list(history.reward_functions))
    segment = 0
    rows = sorted(
        [(row.segment, row.step, 0, row) for row in history.rows]
        + [(row.segment, row.step, 1, row) for row in history.evaluations],
        key=lambda item: item[:3],
    )
    for where, _, kind, row in rows:
        if where != segment:
            writer.close("finished")
            writer = TraceWriter.resume(run_dir, history.starts[where], source=SOURCE)
            segment = where
        writer.add_row(("metrics", "evaluations")[kind], row.step, dict(row.values), *((row.time,) if not kind else ()))
    _batches(writer, history)
    _events(writer, history)
    writer.flush()
    failed = writer.failed
    writer.close("finished")
    if failed is not None:
        raise UnreadableError(f"{run_dir} could not be written: {failed}")


def manifest_of(history: History, origin: str, config: Mapping[str, Any] | None = None) -> Manifest:
    """Return the manifest of an imported history."""
    settings = dict(history.settings)
    rank = settings.pop(_LORA_SETTING, None)
    model = settings.pop("model", None)
    functions = history.reward_functions or tuple(sorted(_functions(history)))
    return Manifest(
        model={"name": model if isinstance(model, str) else None},
        trainer={"class": None, "arguments": settings},
        lora=None if rank is None else {"r": rank},
        rewards=[{"name": name, "weight": None} for name in functions],
        recorder={
            "source": SOURCE,
            "producer": history.producer,
            "imported_from": origin,
            "renamed": dict(history.names.renamed),
            "unresolved": list(history.names.unresolved),
            "left_out": dict(history.left_out),
            "notes": list(history.notes),
            "sampled": history.sampled,
            "rollouts": "completions file" if history.batches else None,
            "skipped": [
                {"what": "tensors, layers, spectra", "why": "imported from a log, which does not hold them"},
            ],
        },
        config=None if config is None else dict(config),
    )


def _functions(history: History) -> set[str]:
    names = {name for row in history.rows for name in row.values if name.startswith("rewards/")}
    return {name.removeprefix("rewards/").removesuffix("/mean") for name in names if name.endswith("/mean")}


def _batches(writer: TraceWriter, history: History) -> None:
    for batch in history.batches:
        nothing = np.full(batch.reward.shape, np.nan)
        writer.add_row(
            "rollouts",
            batch.step,
            {
                "prompt_id": batch.prompt_id,
                "reward": batch.reward,
                "advantage": batch.advantage,
                "length": nothing,
                "terminated": nothing,
                "rewards": batch.rewards,
            },
        )
    if history.batches:
        writer.describe("rollouts", source="completions file")


def _events(writer: TraceWriter, history: History) -> None:
    """Note what the arrays cannot say: that a value was there and was no number, and what of the log is not here."""
    for name, row in list(_first_bad(history).items())[:_EVENTS_OF_ONE_KIND]:
        value = row.values[name]
        writer.event(row.step, f"non-finite metric {name}", f"the log holds {value} at step {row.step}", metric=name)
    for note in history.notes:
        writer.event(-1, "import", note)


def _first_bad(history: History) -> dict[str, Row]:
    """Return, per metric that was finite before, the first row where it is logged and is no finite number."""
    finite: set[str] = set()
    found: dict[str, Row] = {}
    for row in history.rows:
        for name, value in row.values.items():
            if math.isfinite(value):
                finite.add(name)
            elif name in finite:
                found.setdefault(name, row)
    return found
