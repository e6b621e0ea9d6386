"""What a run holds, in one glance: the facts behind `grpodyn status` and `grpodyn runs`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from grpodyn.errors import UnreadableError
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import MANIFEST
from grpodyn.trace.stages import StageCourse, stage_course

# `spectra` arrive at their own cadence and `evaluations` when asked for: steps between their rows are no gap.
_REGULAR = ("tensors", "layers", "metrics", "rollouts")


@dataclass(frozen=True)
class Gap:
    """Steps that a group should hold and does not."""

    group: str
    after: int
    """Last step before the gap."""
    before: int
    """First step after it."""


@dataclass(frozen=True)
class RecordedCost:
    """What recording cost."""

    seconds: float | None
    """CPU seconds of all recorder threads."""
    fraction_of_step: float | None
    """The same over the wall seconds of the steps."""


@dataclass(frozen=True)
class Overview:
    """What is in a run, whole or not, and what it cost."""

    run_id: str
    status: str
    last_step: int
    rows: dict[str, int]
    segments: list[dict[str, Any]]
    stages: StageCourse | None
    """Null for a run without stages."""
    gaps: list[Gap]
    recorder: RecordedCost
    skipped: list[dict[str, str]]
    """What was not recorded (`what`) and why (`why`)."""
    problems: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)


def overview(run: Run) -> Overview:
    """Return what is in the run."""
    listed = run.manifest.recorder.get("skipped") or []
    skipped = [
        {"what": str(item.get("what")), "why": str(item.get("why"))} for item in listed if isinstance(item, dict)
    ]
    cost = _recorder_cost(run)
    # Reading events finds damage too, so it comes before the run is asked for its problems.
    events = _event_problems(run, {f"not recorded: {item['what']}" for item in skipped})
    gaps = [gap for group in _REGULAR for gap in gaps_of(group, run.steps(group))]
    return Overview(
        run_id=run.manifest.run_id,
        status=run.status,
        last_step=run.last_step,
        rows=run.rows,
        segments=run.manifest.segments,
        stages=stage_course(run),
        gaps=gaps,
        recorder=cost,
        skipped=skipped,
        problems=[*run.problems, *events],
    )


def gaps_of(group: str, steps: list[int]) -> list[Gap]:
    """Return where at least one row of the group's cadence is missing; the cadence is the commonest distance.

    >>> gaps_of("tensors", [1, 5, 10, 15, 30, 35, 37])
    [Gap(group='tensors', after=15, before=30)]
    """
    unique = sorted(set(steps))
    distances = [b - a for a, b in pairwise(unique)]
    if len(distances) < 2:
        return []
    # The first and the last step are recorded too: the distances next to them are shorter, and prove nothing.
    values, counts = np.unique(distances, return_counts=True)
    cadence = int(np.median(values[counts == counts.max()]))
    return [Gap(group, a, b) for a, b in pairwise(unique) if b - a >= 2 * cadence]


def runs_under(directory: Path) -> list[tuple[Path, Overview | str]]:
    """Return every run directly in `directory` with what is in it, or with the reason why it cannot be read."""
    found: list[tuple[Path, Overview | str]] = []
    for path in sorted(child for child in directory.iterdir() if (child / MANIFEST).exists()):
        try:
            found.append((path, overview(open_run(path))))
        except UnreadableError as error:
            found.append((path, str(error)))
    return found


def _recorder_cost(run: Run) -> RecordedCost:
    totals = run.metric_totals("recorder_seconds", "step_seconds")
    seconds, steps = totals["recorder_seconds"], totals["step_seconds"]
    return RecordedCost(seconds, seconds / steps if seconds is not None and steps else None)


def _event_problems(run: Run, told: set[str]) -> list[str]:
    """Return what the events say, once each; `told` are those that the list of what is skipped says already."""
    first: dict[tuple[str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for event in run.events:
        key = (str(event.get("what")), str(event.get("why")))
        if key[0] in told:
            continue
        first.setdefault(key, event["step"])
        counts[key] += 1
    problems: list[str] = []
    for (what, why), count in counts.items():
        step = first[what, why]
        where = f"step {step}: " if step >= 0 else ""
        problems.append(f"{where}{what}: {why}" + (f" (and {count - 1} times more)" if count > 1 else ""))
    return problems
