"""Tables of how often each prompt was solved: one generation batch of a frozen policy, with rewards of 0 and 1."""

from __future__ import annotations

import csv
import io

import numpy as np

from grpodyn.importers.log import Batch, Log, number

_RIGHT = ("n_correct", "correct", "num_correct", "solved")
_SAMPLES = ("n_samples", "samples", "num_samples", "n")
_MOST_CELLS = 50_000_000


def from_text(text: str) -> Log | None:
    """Return the batch that a CSV of solve counts stands for, or None if it is no such table.

    Every prompt must have been sampled as often as the others. The order within a group is not known: right ones first.

    >>> from_text("idx,n_correct,n_samples\\n0,1,4\\n1,0,4\\n").batches[0].reward.tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    header = [cell.strip().lower() for cell in text.split("\n", 1)[0].split(",")]
    right = next((name for name in _RIGHT if name in header), None)
    samples = next((name for name in _SAMPLES if name in header), None)
    if right is None or samples is None or "step" in header:
        return None
    rows = list(csv.DictReader(io.StringIO(text), fieldnames=header))[1:]
    counts = [(number(row[right]), number(row[samples])) for row in rows if row.get(right)]
    known = np.array([[k, n] for k, n in counts if k is not None and n is not None and 0 <= k <= n])
    if len(known) == 0 or len(known) != len(counts) or known.size * known[:, 1].max() > _MOST_CELLS:
        return None
    group = int(known[0, 1])
    if group < 1 or not (known[:, 1] == group).all():
        return None
    reward = (np.arange(group)[None, :] < known[:, :1]).astype(np.float64)
    batch = Batch(
        1,
        np.arange(len(reward), dtype=np.int64),
        reward,
        np.full(reward.shape, np.nan),
        reward[..., None],
    )
    note = "counts per prompt of one policy: a single generation batch, whose order within a group is not known"
    return Log("solve counts (CSV)", (), {"num_generations": group}, (note,), {}, (batch,), ("correct",), None)
