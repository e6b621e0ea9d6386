"""Runs as files of other tools."""

from __future__ import annotations

from grpodyn.exporters.frames import to_pandas
from grpodyn.exporters.hdf5 import to_hdf5
from grpodyn.exporters.tables import to_csv, to_parquet
from grpodyn.exporters.tensorboard import to_tensorboard

__all__ = ["to_csv", "to_hdf5", "to_pandas", "to_parquet", "to_tensorboard"]
