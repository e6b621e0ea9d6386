"""TensorBoard event files: the trainer's scalars, evaluations, and the probes summed up by layer and module type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.errors import MissingDataError
from grpodyn.exporters.frames import group_names
from grpodyn.exporters.target import new_path

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

Scalar = tuple[str, int, float, float]
"""Tag, step, value, seconds since 1970."""


def to_tensorboard(run: Run, path: Path, per_tensor: bool = False) -> list[Path]:
    """Write a log directory.

    Args:
        run: what to write.
        path: new log directory.
        per_tensor: a tag for every tensor and probe too. TensorBoard grows slow at some thousands of tags; without it
            a probe is shown as its mean over the tensors of each module type and of each layer.

    Raises:
        DirectoryInUseError: there is something at `path`.
        MissingDataError: tensorboard is not installed.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415
    except ImportError as error:
        raise MissingDataError(f"event files need tensorboard ({error}); install it, or export to csv") from error
    with new_path(path) as folder:
        writer = EventFileWriter(str(folder))
        for tag, step, value, seconds in scalars(run, per_tensor):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=seconds, step=step, summary=summary))
        writer.close()
    return sorted(path.iterdir())


def scalars(run: Run, per_tensor: bool) -> Iterator[Scalar]:
    """Return what is written, group by group; what was not measured is left out."""
    clock = _clock(run)
    for group in group_names(run):
        dataset: xr.Dataset = getattr(run, group)
        steps = [int(step) for step in dataset["step"].values]
        for tag, values in _series(group, dataset, per_tensor):
            for step, value in zip(steps, values, strict=True):
                if not np.isnan(value):
                    yield tag, step, float(value), clock(step)


def _series(group: str, dataset: xr.Dataset, per_tensor: bool) -> Iterator[tuple[str, Any]]:
    if group in ("metrics", "evaluations"):
        values = dataset["values"].values
        for column, metric in enumerate(dataset["metric"].values):
            yield f"{group}/{metric}", values[:, column]
    elif group == "layers":
        for name, array in dataset.data_vars.items():
            for column, layer in enumerate(dataset["layer"].values):
                yield f"layers/{name}/{layer}", array.values[:, column]
    elif group in ("tensors", "spectra"):
        for name, array in dataset.data_vars.items():
            if array.dims == ("row", "tensor") and name != "measured_step":
                yield from _probe(group, str(name), array, per_tensor)
    elif group == "rollouts":
        for name in ("reward", "length", "terminated"):
            if name in dataset:
                yield f"rollouts/{name}", dataset[name].mean(("prompt", "generation"), skipna=True).values


def _probe(group: str, name: str, array: xr.DataArray, per_tensor: bool) -> Iterator[tuple[str, Any]]:
    loaded = array.load()
    for by in ("module", "layer"):
        means = loaded.groupby(by).mean("tensor", skipna=True)
        for column, label in enumerate(means[by].values):
            yield f"{group}/{name}/by {by}/{label}", means.values[:, column]
    if per_tensor:
        for column, tensor in enumerate(loaded["tensor"].values):
            yield f"{group}/{name}/{tensor}", loaded.values[:, column]


def _clock(run: Run) -> Any:
    """Return a function from a step to the time at which the trainer logged it, or the nearest log."""
    if not run.rows["metrics"]:
        return lambda step: 0.0
    steps, times = run.metrics["step"].values, run.metrics["time"].values
    known = np.isfinite(times)
    if not known.any():
        return lambda step: 0.0
    return lambda step: float(np.interp(step, steps[known], times[known]))
