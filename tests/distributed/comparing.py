"""What two records of one training have to have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from grpodyn import open_run
from grpodyn.trace.reader import Run

GROUPS = ("tensors", "layers", "spectra")


def read(folder: Path, way: str) -> Run:
    """Return what the first rank recorded; no other may have written anything."""
    assert [path.name for path in (folder / way).iterdir()] == ["rank0"]
    return open_run(folder / way / "rank0")


def faults(recorded: Run) -> list[tuple[int, str]]:
    """Return step and kind of everything that was noted while training ran."""
    return [(event["step"], event["what"]) for event in recorded.events if "not recorded" not in event["what"]]


def check_equal(recorded: Run, alone: Run, *, steps: tuple[int, ...] = (1, 2, 3), without: tuple[str, ...] = ()) -> int:
    """Hold every array of the probes against the single process; return how many finite values there were.

    Args:
        recorded: of several ranks.
        alone: of one process.
        steps: the steps that are compared.
        without: probes that are not.
    """
    values = 0
    for group in GROUPS:
        ours, theirs = getattr(recorded, group), getattr(alone, group)
        assert set(ours.data_vars) == set(theirs.data_vars)
        for name in ("tensor", "layer", "rows", "cols", "kind", "module", "dtype", "source"):
            if name in theirs.coords:
                np.testing.assert_array_equal(ours[name].values, theirs[name].values)
        assert ours.step.values.tolist() == [1, 2, 3]
        rows = [step - 1 for step in steps]
        for name in theirs.data_vars:
            if name in without:
                continue
            expected = theirs[name].values[rows]
            # An angle of 0 is one of rounding.
            np.testing.assert_allclose(ours[name].values[rows], expected, rtol=1e-5, atol=1e-10, err_msg=name)
            values += int(np.isfinite(expected).sum())
    return values


def check_same_weights(folder: Path, ranks: int, way: str, other: str) -> None:
    """Hold the weights that two trainings ended with against each other, bit for bit."""
    for rank in range(ranks):
        ours, theirs = (torch.load(folder / f"{name}-rank{rank}.pt") for name in (way, other))
        assert len(ours) == len(theirs) > 0
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
