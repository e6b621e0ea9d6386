"""Where a run was taken up again: which rows count, and whether the curve may be fitted across."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NEIGHBOURS = 10
"""Points on either side of a restart that are compared."""
JUMP = 3.0
"""A difference of so many standard errors is a jump."""
_REWOUND = 0.1
"""A restart within this share of the steps logged so far from the first step is another run, not a resume."""


def numbered_segments(steps: Integers) -> tuple[Integers, NDArray[np.bool_], str]:
    """Number the segments of a log by its steps, which go back where a run was taken up again.

    Returns:
        Segment of each row; whether the row counts (a later segment replaces the steps it covers); a note, or "".

    >>> numbered_segments(np.array([1, 2, 3, 4, 3, 4, 5]))[:2]
    (array([0, 0, 0, 0, 1, 1, 1]), array([ True,  True, False, False,  True,  True,  True]))
    """
    starts = np.flatnonzero(np.diff(steps) < 0) + 1
    segment = np.zeros(len(steps), np.int64)
    counts = np.ones(len(steps), bool)
    runs = 1
    for number, start in enumerate(starts.tolist(), start=1):
        segment[start:] = number
        earlier = steps[:start]
        if steps[start] <= earlier.min() + _REWOUND * (earlier.max() - earlier.min()):
            counts[:start] = False
            runs += 1
        else:
            counts[:start] &= earlier < steps[start]
    note = f"the log holds {runs} runs one after another (its steps start over): the last one is used"
    return segment, counts, note if runs > 1 else ""


def two_runs_in_one(steps: Integers) -> str:
    """Return a sentence if the rows of several runs alternate, or "".

    >>> two_runs_in_one(np.array([1, 1, 2, 2, 3, 3, 4, 4]))
    'most steps occur 2 times: the rows of 2 runs are mixed'
    """
    if len(steps) < 2 * 4:
        return ""
    _, times = np.unique(steps, return_counts=True)
    usual = int(np.median(times))
    # A resumed log repeats steps too, but goes back only once each time.
    goes_back = int((np.diff(steps) < 0).sum())
    adjacent = int((np.diff(steps) == 0).sum())
    if usual >= 2 and max(goes_back, adjacent) > len(times) / 2:
        return f"most steps occur {usual} times: the rows of {usual} runs are mixed"
    return ""


def parts(value: Floats, segment: Integers) -> Integers:
    """Return the part of each point: a new one begins where the segment changes and the level jumps.

    A clean resume goes on where the last segment ended and is one part with it. Levels are compared over up to
    `NEIGHBOURS` points on either side, against the noise of both (from differences of neighbours, so that a slope is
    not taken for noise).

    >>> level = np.array([0.5, 0.52, 0.48, 0.51, 0.5, 0.9, 0.91, 0.89, 0.92, 0.9])
    >>> parts(level, np.repeat([0, 1], 5)).tolist(), parts(level, np.zeros(10, int)).tolist()
    ([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    """
    part = np.zeros(len(value), np.int64)
    for start in (np.flatnonzero(np.diff(segment) != 0) + 1).tolist():
        left, right = slice(max(0, start - NEIGHBOURS), start), slice(start, start + NEIGHBOURS)
        before = value[left][segment[left] == segment[start - 1]]
        after = value[right][segment[right] == segment[start]]
        if _jumps(before, after):
            part[start:] += 1
    return part


def _jumps(before: Floats, after: Floats) -> bool:
    if min(len(before), len(after)) < 2:
        # Too little to tell: bridging it would be a claim.
        return True
    differences = np.concatenate([np.diff(before), np.diff(after)])
    noise = float(np.sqrt(np.mean(differences**2) / 2))
    # The nearest halves: on a slope, far points lie apart without any jump.
    near = max(2, min(len(before), len(after)) // 2)
    left, right = before[-near:], after[:near]
    error = noise * np.sqrt(1 / len(left) + 1 / len(right))
    return bool(abs(right.mean() - left.mean()) > JUMP * error)
