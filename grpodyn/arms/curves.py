"""A metric over steps, one curve a run; a record in which steps start over holds several runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpodyn.series.columns import evaluation, logged

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

_REWOUND = 0.1
"""A restart within this share of the steps so far from the first step is another run, not a resume."""


@dataclass(frozen=True)
class Curve:
    """One metric of one run."""

    run: str
    step: Steps
    """Ascending."""
    value: Floats


def curves_of(run: Run, metric: str) -> list[Curve]:
    """Return the curves of a metric that the trainer logged or an evaluation measured; none if the run lacks it.

    Usually one. A log that was opened to append holds several, one after another or row by row.
    """
    found = logged(run, metric) or evaluation(run, metric)
    if found is None:
        return []
    step, value = found
    parts = runs_in(step)
    name = Path(run.path).name
    labels = [name] if len(parts) == 1 else [f"{name} ({i} of {len(parts)})" for i in range(1, len(parts) + 1)]
    curves = []
    for label, rows in zip(labels, parts, strict=True):
        finite = rows[np.isfinite(value[rows])]
        order = finite[np.argsort(step[finite], kind="stable")]
        if order.size:
            curves.append(Curve(label, step[order], value[order]))
    return curves


def runs_in(step: Steps) -> list[NDArray[np.intp]]:
    """Return the rows of each run that a log holds; a resume is no new run.

    Steps that go back to the start begin another run. Where most steps occur k times, each time beside the other, the
    rows of k runs alternate.

    >>> [rows.tolist() for rows in runs_in(np.array([1, 2, 3, 1, 2, 3]))]
    [[0, 1, 2], [3, 4, 5]]
    >>> [rows.tolist() for rows in runs_in(np.array([1, 1, 2, 2, 3, 3, 4, 4]))]
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    >>> [rows.tolist() for rows in runs_in(np.array([1, 2, 3, 4, 3, 4, 5]))]
    [[0, 1, 2, 3, 4, 5, 6]]
    """
    if len(step) < 2:
        return [np.arange(len(step))]
    starts = [0]
    for row in (np.flatnonzero(np.diff(step) < 0) + 1).tolist():
        earlier = step[starts[-1] : row]
        if step[row] <= earlier.min() + _REWOUND * (earlier.max() - earlier.min()):
            starts.append(row)
    if len(starts) == 1:
        return _alternating(step)
    return [np.arange(start, end) for start, end in zip(starts, [*starts[1:], len(step)], strict=True)]


def _alternating(step: Steps) -> list[NDArray[np.intp]]:
    _, first, counts = np.unique(step, return_index=True, return_counts=True)
    usual = int(np.median(counts))
    if usual < 2 or len(first) < 4:
        return [np.arange(len(step))]
    order = np.argsort(step, kind="stable")
    occurrence = np.empty(len(step), np.int64)
    occurrence[order] = np.concatenate([np.arange(count) for count in counts])
    return [np.flatnonzero(occurrence == i) for i in range(int(counts.max()))]
