"""Single columns of what a run logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Column = tuple[NDArray[np.int64], NDArray[np.float64]]


def logged(run: Run, name: str) -> Column | None:
    """Return step and value of a trainer metric in every row (nan where the row has none), or None."""
    return _column(run, "metrics", name)


def evaluation(run: Run, name: str) -> Column | None:
    """Return step and value of an evaluation metric in every row (nan where the row has none), or None."""
    return _column(run, "evaluations", name)


def _column(run: Run, group: str, name: str) -> Column | None:
    if not run.rows[group]:
        return None
    data = getattr(run, group)
    names = [str(metric) for metric in data["metric"].values] if "values" in data else []
    if name not in names:
        return None
    values = np.asarray(data["values"].isel(metric=names.index(name)).values, np.float64)
    return np.asarray(data["step"].values, np.int64), values
