"""`grpodyn export`: a run as files of other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from grpodyn.cli.text import literal


class Target(StrEnum):
    """What can be written."""

    H5 = "h5"
    PARQUET = "parquet"
    CSV = "csv"
    TENSORBOARD = "tensorboard"


def command(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    to: Annotated[Target, typer.Option("--to", help="What to write.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="New file (h5) or folder; by default the run's name beside it."),
    ] = None,
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="TensorBoard: a tag a tensor, not only means by layer and module.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Write a run as HDF5, parquet, CSV or TensorBoard files.

    Example: grpodyn export runs/demo --to h5 -o demo.h5
    """
    from rich.console import Console

    from grpodyn import exporters
    from grpodyn.cli.lookup import find_run
    from grpodyn.errors import UsageError
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    if per_tensor and to is not Target.TENSORBOARD:
        raise UsageError(f"--per-tensor is for --to tensorboard; {to} holds every tensor anyway")
    run = find_run(run)
    opened = open_run(run)
    path = output or run.resolve().with_name(f"{run.resolve().name}-{to}").with_suffix(".h5" if to is Target.H5 else "")
    if to is Target.TENSORBOARD:
        written = exporters.to_tensorboard(opened, path, per_tensor)
    else:
        write = {Target.H5: exporters.to_hdf5, Target.PARQUET: exporters.to_parquet, Target.CSV: exporters.to_csv}
        written = write[to](opened, path)
    if as_json:
        typer.echo(strict_json.dumps({"written": [str(file) for file in written], "problems": opened.problems}))
        return
    console = Console()
    for file in written:
        console.print(literal(f"{file}  {file.stat().st_size / 2**20:.2f} MiB"), soft_wrap=True)
    for problem in opened.problems:
        console.print(literal(f"problem: {problem}"))
