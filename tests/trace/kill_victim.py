"""A torch-free process that records 20 rows a second, to be killed. Usage: kill_victim.py RUN ROWS"""

import sys
import time
from pathlib import Path

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

TENSORS = 5


def main(run_dir: Path, rows: int) -> None:
    writer = TraceWriter.create(run_dir, Manifest())
    names = [f"w{i}" for i in range(TENSORS)]
    writer.declare_tensors([TensorInfo(n, 0, n, "", "linear", 2, 2, "float32", True, "full") for n in names])
    writer.declare_arrays("tensors", {"update_norm": ArraySpec(("row", "tensor"))})
    print("started", flush=True)
    for step in range(1, rows + 1):
        writer.add_row("tensors", step, {"update_norm": step + np.arange(TENSORS) / 8})
        # A new name now and then, so that kills also fall into the growth of an axis.
        writer.add_row("metrics", step, {"loss": 1 / step, f"late_{step // 4}": float(step)})
        if step % 10 == 0:
            writer.add_row("spectra", step, {"measured_step": np.full(TENSORS, step)})
        time.sleep(0.05)
    writer.close("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
