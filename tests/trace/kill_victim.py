"""Torch-free processes that record 20 rows a second, to be killed. Usage: kill_victim.py ROWS, and runs on its input.

Each line of the input is the directory of a run. It is recorded by a process of its own, forked from this one, whose
number is answered as soon as it records: what is imported for all of them is imported once. A line that is a number
asks how that process ended: its exit status, or minus the signal.
"""

import os
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

TENSORS = 5


def record(run_dir: Path, rows: int) -> None:
    writer = TraceWriter.create(run_dir, Manifest())
    names = [f"w{i}" for i in range(TENSORS)]
    writer.declare_tensors([TensorInfo(n, 0, n, "", "linear", 2, 2, "float32", True, "full") for n in names])
    writer.declare_arrays("tensors", {"update_norm": ArraySpec(("row", "tensor"))})
    print(os.getpid(), flush=True)
    for step in range(1, rows + 1):
        writer.add_row("tensors", step, {"update_norm": step + np.arange(TENSORS) / 8})
        # A new name now and then, so that kills also fall into the growth of an axis.
        writer.add_row("metrics", step, {"loss": 1 / step, f"late_{step // 4}": float(step)})
        if step % 10 == 0:
            writer.add_row("spectra", step, {"measured_step": np.full(TENSORS, step)})
        time.sleep(0.05)
    writer.close("finished")


def main(rows: int) -> None:
    for line in sys.stdin:
        asked = line.rstrip("\n")
        if asked.isdigit():
            _, status = os.waitpid(int(asked), 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        elif os.fork() == 0:
            failed = True
            try:
                record(Path(asked), rows)
                failed = False
            finally:
                if failed:
                    traceback.print_exc()
                os._exit(failed)


if __name__ == "__main__":
    main(int(sys.argv[1]))
