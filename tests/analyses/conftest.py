from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

WriteRun = Callable[..., Run]


def info(name: str, layer: int, rows: int, cols: int, **changes: Any) -> TensorInfo:
    module = name.split(".")[-2] if name.endswith(".weight") else name.rsplit(".", maxsplit=1)[-1]
    fields = {"module": module, "stack": "model.layers" if layer >= 0 else "", "kind": "linear", "dtype": "float32"}
    fields |= {"trainable": True, "source": "full"}
    return TensorInfo(name, layer, rows=rows, cols=cols, **{**fields, **changes})


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run through the real writer, from arrays as they stand."""

    def write(
        name: str = "run",
        tensors: Sequence[TensorInfo] = (),
        rows: Mapping[int, Mapping[str, Any]] | None = None,
        spectra: Mapping[int, Mapping[str, Any]] | None = None,
        metrics: Mapping[int, Mapping[str, float]] | None = None,
        evaluations: Sequence[tuple[int, Mapping[str, float]]] = (),
        status: str = "finished",
        **manifest: Any,
    ) -> Run:
        writer = TraceWriter.create(tmp_path / name, Manifest(**manifest))
        if tensors:
            writer.declare_tensors(tensors)
        for group, content in (("tensors", rows or {}), ("spectra", spectra or {})):
            probes = {probe for values in content.values() for probe in values if probe != "measured_step"}
            writer.declare_arrays(group, {probe: ArraySpec(("row", "tensor")) for probe in sorted(probes)})
            for step, values in content.items():
                writer.add_row(group, step, {probe: np.asarray(value, float) for probe, value in values.items()})
        for step, logged in (metrics or {}).items():
            writer.add_row("metrics", step, logged)
        for step, result in evaluations:
            writer.add_row("evaluations", step, result)
        writer.close(status)
        return open_run(tmp_path / name)

    return write


@pytest.fixture
def tensor_info() -> Callable[..., TensorInfo]:
    return info
