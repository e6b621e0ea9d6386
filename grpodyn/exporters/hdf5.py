"""HDF5: the groups, dimensions and names of the trace, readable in h5dump, HDFView, h5py, MATLAB or R."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from grpodyn.exporters.frames import BLOCK_CELLS, group_names
from grpodyn.exporters.target import new_path
from grpodyn.trace import strict_json

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

TEXT = h5py.string_dtype("utf-8")


def to_hdf5(run: Run, path: Path) -> list[Path]:
    """Write one file: a group for each of the trace's, an array for each of its, bit for bit.

    Each axis is a dimension scale (`tensor`, `metric`, …) attached to the arrays that it labels; the run's manifest is
    the text `/manifest`, as JSON.

    Raises:
        DirectoryInUseError: there is something at `path`.
    """
    with new_path(path) as partial, h5py.File(partial, "w") as file:
        # Not an attribute: those end at 64 KiB.
        file.create_dataset("manifest", data=run.manifest.model_dump_json(by_alias=True), dtype=TEXT)
        file.attrs["run_id"], file.attrs["status"] = str(run.manifest.run_id), run.status
        file.attrs["schema_version"], file.attrs["written_by"] = run.manifest.schema_version, "grpodyn export --to h5"
        for group in group_names(run):
            _write_group(file.create_group(group), getattr(run, group))
    return [path]


def _write_group(target: h5py.Group, dataset: xr.Dataset) -> None:
    for name, value in dataset.attrs.items():
        target.attrs[str(name)] = value if isinstance(value, str | int | float) else strict_json.dumps(value)
    for coordinate in dataset.coords.values():
        _write_array(target, coordinate)
    for dim, size in dataset.sizes.items():
        if dim not in target:  # an axis without names is numbered
            target[str(dim)] = np.arange(size)
        target[str(dim)].make_scale(str(dim))
    for array in dataset.data_vars.values():
        _write_array(target, array)
    for name in (*dataset.coords, *dataset.data_vars):
        for axis, dim in enumerate(dataset[name].dims):
            if name != dim:
                target[str(name)].dims[axis].attach_scale(target[str(dim)])
                target[str(name)].dims[axis].label = str(dim)


def _write_array(target: h5py.Group, array: xr.DataArray) -> None:
    name = str(array.name)
    if array.dtype == object:
        target.create_dataset(name, data=[str(value) for value in array.values], dtype=TEXT)
    else:
        stored: Any = target.create_dataset(name, shape=array.shape, dtype=array.dtype)
        rows = array.shape[0] if array.ndim else 1
        size = max(1, BLOCK_CELLS // max(1, array.size // max(1, rows)))
        for start in range(0, rows, size):
            stored[start : start + size] = array[start : start + size].values
    for key, value in array.attrs.items():
        if isinstance(value, str | int | float):
            target[name].attrs[str(key)] = value
