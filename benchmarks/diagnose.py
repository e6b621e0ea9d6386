"""What a diagnosis costs in CPU seconds: a log of many rows, and a row while training goes on.

python benchmarks/diagnose.py [--rows 20000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from grpodyn.diagnosis import diagnose
from grpodyn.diagnosis.live import LiveDiagnosis
from grpodyn.diagnosis.of_history import observe_history
from grpodyn.importers import read_log, understand
from grpodyn.importers.json_log import rows_log


def rows(count: int) -> list[dict[str, float]]:
    """Return a log of the keys that TRL writes."""
    rng = np.random.default_rng(0)
    reward = 0.8 - 0.5 * np.exp(-np.arange(count) / (count / 5)) + 0.05 * rng.standard_normal(count)
    columns = {
        "reward": reward,
        "reward_std": 0.4 + 0.01 * rng.standard_normal(count),
        "frac_reward_zero_std": rng.uniform(0.1, 0.3, count),
        "entropy": 0.6 - 0.2 * reward + 0.02 * rng.standard_normal(count),
        "kl": 0.05 * np.sqrt(np.arange(count) / count),
        "grad_norm": np.exp(0.3 * rng.standard_normal(count)),
        "loss": 0.01 * rng.standard_normal(count),
        "learning_rate": np.full(count, 1e-6),
    }
    for part in ("accuracy", "format"):
        columns |= {f"rewards/{part}/mean": reward / 2, f"rewards/{part}/std": np.full(count, 0.3)}
    for which in ("mean", "min", "max", "mean_terminated", "min_terminated", "max_terminated"):
        columns[f"completions/{which}_length"] = rng.uniform(90, 110, count)
    columns["completions/clipped_ratio"] = rng.uniform(0, 0.03, count)
    names = list(columns)
    table = np.stack([columns[name] for name in names], axis=1).tolist()
    return [dict(zip(names, row, strict=True)) | {"step": i + 1} for i, row in enumerate(table)]


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    log = rows(arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in log))
        began = time.process_time()
        history = understand(read_log(path))
        read = time.process_time()
        seen = observe_history(history, str(path))
        diagnose(seen)
        done = time.process_time()
    print(f"{arguments.rows} rows of {len(log[0])} keys: read {read - began:.2f} s, diagnosed {done - read:.2f} s")
    half = understand(rows_log("half", log[: arguments.rows // 2]))
    began = time.process_time()
    diagnose(observe_history(half, "half"))
    print(f"  half of them: diagnosed {time.process_time() - began:.2f} s")
    live = LiveDiagnosis({"learning_rate": 1e-6})
    marks = []
    for row in log:
        began = time.process_time()
        live.row(int(row["step"]), row)
        marks.append(time.process_time() - began)
    tenth = len(marks) // 10
    first, last = 1e3 * sum(marks[tenth : 2 * tenth]) / tenth, 1e3 * sum(marks[-tenth:]) / tenth
    print(
        f"live: {first:.2f} ms a row in the second tenth of the rows, {last:.2f} ms in the last ({last / first:.2f} ×)"
    )


if __name__ == "__main__":
    main()
