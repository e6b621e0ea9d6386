"""What storing costs: 400 tensors × 12 probes a row, through the real writer.

    python benchmarks/trace_append.py

Prints the time that `add_row` takes of the caller's thread, the writer thread's share of a core at a training pace,
and the number of files of 10,000 rows; each beside its budget.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from grpodyn import open_run
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

PROBES = [f"probe_{i}" for i in range(12)]


def start(run_dir: Path, tensors: int) -> TraceWriter:
    """Return a writer with `tensors` tensors and twelve probes declared."""
    writer = TraceWriter.create(run_dir, Manifest())
    names = [f"model.layers.{i // 7}.module_{i % 7}.weight" for i in range(tensors)]
    writer.declare_tensors(
        [TensorInfo(n, i // 7, f"module_{i % 7}", "model.layers", "linear", 1, 1, "float32", True, "full")
         for i, n in enumerate(names)]
    )  # fmt: skip
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in PROBES})
    return writer


def append(writer: TraceWriter, rows: int, tensors: int, pause: float) -> list[float]:
    """Add `rows` rows, `pause` seconds apart; return the milliseconds that each took of this thread."""
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(len(PROBES), tensors)).astype(np.float32)
    took: list[float] = []
    for step in range(1, rows + 1):
        row = {name: values[i] + step for i, name in enumerate(PROBES)}
        began = time.perf_counter()
        writer.add_row("tensors", step, row)
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(pause)
    return took


def report(title: str, value: float, unit: str, budget: float) -> None:
    """Print one line of the table."""
    print(f"{title:<58}{value:>10.2f} {unit:<6}budget {budget:g}   {'ok' if value <= budget else 'MISSED'}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What storing a trace costs.")
    parser.add_argument("--tensors", type=int, default=400)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the run whose files are counted")
    parser.add_argument("--paced-rows", type=int, default=60, help="rows of the run at a training run's pace")
    parser.add_argument("--pace", type=float, default=0.25, help="seconds between those rows")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory() as folder:
        paced, full = Path(folder, "paced"), Path(folder, "full")
        writer = start(paced, options.tensors)
        append(writer, 1, options.tensors, 0.0)
        writer.flush()  # Arrays are created once a run; what counts is what comes again.
        began, created = time.perf_counter(), writer.cpu_seconds
        took = append(writer, options.paced_rows, options.tensors, options.pace)
        wall, cpu = time.perf_counter() - began, writer.cpu_seconds - created
        writer.close("finished")
        report("caller's thread, one row, median", float(np.median(took)), "ms", 10)
        report("caller's thread, one row, 99th percentile", float(np.percentile(took, 99)), "ms", 10)
        report(f"writer thread at {1 / options.pace:.0f} rows/s, share of a core", 100 * cpu / wall, "%", 2)

        writer = start(full, options.tensors)
        began = time.perf_counter()
        append(writer, options.rows, options.tensors, 0.0)
        writer.close("finished")
        wall = time.perf_counter() - began
        files = [path for path in full.rglob("*") if path.is_file()]
        report(f"files of {options.rows:,} rows", len(files), "", 400)
        size = sum(path.stat().st_size for path in files)
        print(f"{options.rows:,} rows in {wall:.1f} s at full speed, {size / 1e6:.0f} MB")
        began = time.perf_counter()
        run = open_run(full)
        if run.last_step != options.rows:
            raise SystemExit(f"{run} lost rows")
        print(f"open_run: {1000 * (time.perf_counter() - began):.0f} ms")


if __name__ == "__main__":
    main()
