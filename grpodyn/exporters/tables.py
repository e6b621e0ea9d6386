"""Parquet and CSV: one file a group, written piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from grpodyn.errors import MissingDataError
from grpodyn.exporters.frames import blocks_of, group_names
from grpodyn.exporters.target import new_path

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


def to_csv(run: Run, path: Path) -> list[Path]:
    """Write `path/<group>.csv`: UTF-8, a header line, empty where nothing was measured, numbers in full precision.

    Raises:
        DirectoryInUseError: there is something at `path`.
    """
    with new_path(path) as folder:
        folder.mkdir()
        for group in group_names(run):
            for i, block in enumerate(blocks_of(run, group)):
                block.to_csv(folder / f"{group}.csv", mode="a", header=i == 0, index=False)
    return sorted(path.iterdir())


def to_parquet(run: Run, path: Path) -> list[Path]:
    """Write `path/<group>.parquet`, with nan where nothing was measured.

    Raises:
        DirectoryInUseError: there is something at `path`.
        MissingDataError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise MissingDataError(f"parquet needs pyarrow ({error}); install it, or export to csv") from error
    with new_path(path) as folder:
        folder.mkdir()
        for group in group_names(run):
            writer = None
            for block in blocks_of(run, group):
                # The types of the first piece hold for all: a column that is nan throughout is still a number.
                table = pa.Table.from_pandas(block, schema=writer and writer.schema, preserve_index=False)
                writer = writer or pq.ParquetWriter(folder / f"{group}.parquet", table.schema)
                writer.write_table(table)
            if writer:
                writer.close()
    return sorted(path.iterdir())
