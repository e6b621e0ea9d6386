"""The groups of a run as tables: one row a measurement, its coordinates in columns of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from grpodyn.errors import UnknownNameError
from grpodyn.trace.schema import GROUPS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from grpodyn.trace.reader import Run

WIDE_DIMS = ("metric", "reward_function", "k")
"""Dimensions whose entries become columns: they name what was measured, not where."""
BLOCK_CELLS = 2_000_000
"""Numbers read at one time, so that a table larger than memory can be written."""


def group_names(run: Run) -> list[str]:
    """Return the groups of a run that hold rows."""
    return [group for group in GROUPS if run.rows[group]]


def to_pandas(run: Run, group: str) -> pd.DataFrame:
    """Return a group as one table.

    `metrics` and `evaluations` have a row a log and a column a metric. `tensors`, `layers` and `spectra` have a row a
    step and tensor (or layer) and a column a probe; `singular_values_1` is the largest. `rollouts` has a row a
    completion, with `rewards/<function>` beside the reward.

    Raises:
        UnknownNameError: no group has that name.
    """
    import pandas as pd  # noqa: PLC0415  # a second of import that only tables need

    if group not in GROUPS:
        raise UnknownNameError.among("group", group, GROUPS)
    blocks = list(blocks_of(run, group))
    return pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame()


def blocks_of(run: Run, group: str) -> Iterator[pd.DataFrame]:
    """Return the table of `to_pandas` piece by piece, in order of the steps."""
    dataset: xr.Dataset = getattr(run, group)
    rows = dataset.sizes.get("row", 0)
    per_row = sum(int(np.prod(array.shape[1:])) for array in dataset.data_vars.values()) or 1
    size = max(1, BLOCK_CELLS // per_row)
    for start in range(0, rows, size):
        yield _table(dataset.isel(row=slice(start, start + size)).load())


def _table(dataset: xr.Dataset) -> pd.DataFrame:
    narrow = dataset
    for name, array in dataset.data_vars.items():
        for dim in WIDE_DIMS:
            if dim in array.dims:
                narrow = narrow.drop_vars(str(name)).assign(_columns(str(name), array, dim))
    narrow = narrow.drop_dims([dim for dim in WIDE_DIMS if dim in narrow.dims])
    order = [dim for dim in ("row", "tensor", "layer", "prompt", "generation") if dim in narrow.dims]
    table = narrow.to_dataframe(dim_order=order).reset_index().drop(columns="row")
    where = ["step", "segment", *order[1:], *(str(name) for name in narrow.coords)]
    leading = [name for name in dict.fromkeys(where) if name in table.columns]
    return table[[*leading, *(name for name in table.columns if name not in leading)]]


def _columns(name: str, array: xr.DataArray, dim: str) -> dict[str, xr.DataArray]:
    if dim == "k":
        return {f"{name}_{k + 1}": array.isel(k=k) for k in range(array.sizes["k"])}
    prefix = "" if dim == "metric" else f"{name}/"
    return {f"{prefix}{label}": array.sel({dim: label}, drop=True) for label in array[dim].values}
