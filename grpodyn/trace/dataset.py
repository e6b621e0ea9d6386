"""One group of a run as a lazy `xarray.Dataset`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from grpodyn.trace.schema import AXIS_COORDS, GROUP_AXES, ROW_ARRAYS
from grpodyn.trace.store import NODE
from grpodyn.trace.stored_view import DAMAGE, Array, StoredView

if TYPE_CHECKING:
    import xarray as xr

Note = Callable[[str], None]


class GroupReader:
    """Reads one group, cut to `rows` committed rows and to `sizes` entries per other dimension."""

    def __init__(self, store: Path, name: str, rows: int, sizes: Mapping[str, int], note: Note) -> None:
        self.name = name
        self.rows = rows
        self._store = store
        self._sizes = sizes
        self._note = note

    def row_array(self, name: str) -> Array:
        """Return `step`, `segment` or `time` of every committed row; what cannot be read is the fill value."""
        fill = ROW_ARRAYS[name].fill if name in ROW_ARRAYS else np.nan
        view = self._view(name, (self.rows,)) if self.rows else None
        return np.full(self.rows, fill) if view is None else view[:]

    def labels(self) -> dict[str, Array]:
        """Return the coordinates of the named axis; strings as objects, because outer joins need that."""
        dim = GROUP_AXES[self.name]
        size = self._sizes.get(dim, 0)
        found: dict[str, Array] = {}
        for coord, dtype in AXIS_COORDS[dim].items():
            view = self._view(coord, (size,)) if (self._store / self.name / coord).is_dir() else None
            if view is not None:
                values = view[:]
                found[coord] = values.astype(object) if dtype == "string" else values
        return found

    def column_sum(self, metric: str, kept: Array) -> float | None:
        """Return the sum of one metric over the rows numbered in `kept`, without nan; None if it is not there."""
        names = self.labels().get("metric", np.empty(0)).tolist()
        if metric not in names or not len(kept):
            return None
        view = self._view("values", (self.rows, len(names)))
        column = view[:, names.index(metric) : names.index(metric) + 1][kept, 0] if view is not None else np.empty(0)
        finite = column[np.isfinite(column)]
        return float(finite.sum()) if len(finite) else None

    def array_names(self) -> list[str]:
        """Return the names of the value arrays on disk."""
        directory = self._store / self.name
        if not directory.is_dir():
            return []
        skip = AXIS_COORDS[GROUP_AXES[self.name]].keys() | ROW_ARRAYS.keys()
        return sorted(path.name for path in directory.iterdir() if path.is_dir() and path.name not in skip)

    def dataset(self, kept: Array, step: Array, segment: Array) -> xr.Dataset:
        """Return the group with the rows numbered in `kept`; `step` and `segment` are those of all committed rows."""
        import xarray as xr  # noqa: PLC0415  # half a second: `status` does without

        coords: dict[str, Any] = {"step": ("row", step[kept]), "segment": ("row", segment[kept])}
        dim = GROUP_AXES[self.name]
        labels = self.labels()
        if dim in labels and len(set(labels[dim].tolist())) != len(labels[dim]):
            # Damaged names would make selection by label fail for all of them.
            self._note(f"{self.name}/{dim}: names are missing or occur twice; numbered instead")
            labels[dim] = np.array([f"{dim}_{i}" for i in range(len(labels[dim]))], dtype=object)
        coords |= {name: (dim, values) for name, values in labels.items()}
        arrays: dict[str, Any] = {}
        for name in self.array_names():
            variable = self._variable(name, kept)
            if variable is not None:
                arrays[name] = variable
        return xr.Dataset(arrays, coords, attrs=self._attributes())

    def _variable(self, name: str, kept: Array) -> Any:
        import dask.array as da  # noqa: PLC0415
        import xarray as xr  # noqa: PLC0415

        try:
            stored: Any = zarr.open_array(str(self._store), path=f"{self.name}/{name}", mode="r")
            dims = tuple(stored.metadata.dimension_names or ())
            attributes = dict(stored.attrs)
        except DAMAGE as error:
            self._note(f"{self.name}/{name}: unreadable array, left out ({type(error).__name__})")
            return None
        if dims[:1] != ("row",):
            self._note(
                f"{self.name}/{name}: unreadable array, left out (its dimensions are {', '.join(map(str, dims))})"
            )
            return None
        shape = tuple(self.rows if dim == "row" else self._sizes.get(dim, 0) for dim in dims)
        view = self._view(name, shape)
        if view is None:
            return None
        # The token is random: hashing a view would read it.
        lazy = da.from_array(view, chunks=view.chunks, name=False, fancy=False)
        return xr.Variable(dims, lazy if len(kept) == self.rows else lazy[kept], attributes)

    def _view(self, name: str, shape: tuple[int, ...]) -> StoredView | None:
        try:
            return StoredView(self._store, f"{self.name}/{name}", shape, self._note)
        except DAMAGE as error:
            self._note(f"{self.name}/{name}: unreadable array, left out ({type(error).__name__})")
            return None

    def _attributes(self) -> dict[str, Any]:
        try:
            attributes = dict(json.loads((self._store / self.name / NODE).read_bytes())["attributes"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        attributes.pop("coordinates", None)
        return attributes
