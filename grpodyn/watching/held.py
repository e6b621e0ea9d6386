"""The small groups of a run, held in memory from one look to the next: only rows that are new are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

GROUPS: Final = ("metrics", "rollouts", "evaluations")
MOST_VALUES: Final = 20_000_000
"""Values of a group that are held; a longer group stays on disk and is read anew at each look."""


class Held:
    """Rows that were read already, by group."""

    def __init__(self) -> None:
        self._groups: dict[str, xr.Dataset] = {}
        self._segments = -1

    def give(self, run: Run) -> int:
        """Let a run that was just opened answer from memory; return how many rows had to be read.

        Every analysis may then ask for metrics, rollouts and evaluations as often as it likes.
        """
        if len(run.manifest.segments) != self._segments:
            # Taken up again: rows that were read may have been replaced by later ones of the same steps.
            self._groups.clear()
            self._segments = len(run.manifest.segments)
        read = 0
        for name in GROUPS:
            lazy: xr.Dataset = getattr(run, name)
            if sum(array.size for array in lazy.data_vars.values()) > MOST_VALUES:
                self._groups.pop(name, None)
                continue
            known = self._groups.get(name)
            first = known.sizes["row"] if known is not None and _goes_on(known, lazy) else 0
            if known is None or first == 0 or first < lazy.sizes["row"]:
                new = lazy.isel(row=slice(first, None)).load()
                read += new.sizes["row"]
                self._groups[name] = _joined(known, new) if known is not None and first else new
            setattr(run, name, self._groups[name])
        return read


def _goes_on(known: xr.Dataset, lazy: xr.Dataset) -> bool:
    """Return whether `lazy` is `known` and perhaps more rows: same arrays, same names, same steps."""
    rows = known.sizes["row"]
    if rows > lazy.sizes["row"] or set(known.variables) != set(lazy.variables):
        return False
    return all(
        np.array_equal(coordinate.values, lazy[name].values[:rows] if "row" in coordinate.dims else lazy[name].values)
        for name, coordinate in known.coords.items()
    ) and all(known.sizes[dim] == size for dim, size in lazy.sizes.items() if dim != "row")


def _joined(known: xr.Dataset, new: xr.Dataset) -> xr.Dataset:
    import xarray as xr  # noqa: PLC0415  # half a second, which naming the program's commands need not wait for

    return xr.concat([known, new], dim="row", data_vars="minimal", coords="minimal", compat="override", join="override")
