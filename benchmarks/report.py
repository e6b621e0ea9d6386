"""What a report costs on a large trace: 3,000 tensors × 2,000 rows, an 80-layer model, 2,000 steps.

    python benchmarks/report.py
    python benchmarks/report.py --tensors 200 --layers 28 --rows 10000     # a long run

The command runs as a user runs it; its memory is that of the largest of its processes. Where Chromium and playwright
are there, the page is opened five times, each time in a new context, until all of its pictures can be drawn.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from grpodyn.reporting.report import PAGE
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

PROBES = ("update_norm", "update_ratio", "grad_norm", "delta_norm")
RANKS = ("effective_rank", "stable_rank", "energy_rank_90")
SHAPES = {
    "q_proj": (4096, 4096),
    "k_proj": (1024, 4096),
    "v_proj": (1024, 4096),
    "o_proj": (4096, 4096),
    "gate_proj": (12288, 4096),
    "up_proj": (12288, 4096),
    "down_proj": (4096, 12288),
}
PROMPTS, GENERATIONS, VALUES, SWEEP = 8, 8, 16, 25


def write_run(run_dir: Path, tensors: int, rows: int, layers: int) -> None:
    """Write a run of a Qwen3-shaped model that holds something for every notebook."""
    names = [(layer, module) for layer in range(layers) for module in SHAPES][:tensors]
    infos = [_info(layer, module, "linear", *SHAPES[module]) for layer, module in names]
    infos += [_info(i % layers, f"norm_{i // layers}", "norm", 4096, 1) for i in range(tensors - len(infos))]
    config = {"model_type": "qwen3", "num_hidden_layers": layers}
    model = {"name": "synthetic", "class": "Qwen3ForCausalLM", "config": config}
    arguments = {"learning_rate": 1e-6, "max_steps": rows}
    writer = TraceWriter.create(run_dir, Manifest(model=model, trainer={"arguments": arguments}))
    writer.declare_tensors(infos)
    writer.declare_layers(list(range(layers)), ["model.layers"] * layers)
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in PROBES})
    writer.declare_arrays("layers", {"layer_delta": ArraySpec(("row", "layer"))})
    ranks = {name: ArraySpec(("row", "tensor")) for name in RANKS}
    writer.declare_arrays("spectra", {**ranks, "singular_values": ArraySpec(("row", "tensor", "k"))})
    writer.declare_reward_functions(["exact_match"])
    rng = np.random.default_rng(0)
    for step in range(1, rows + 1):
        _write_step(writer, step, rows, tensors, layers, rng)
    writer.close("finished")


def _write_step(writer: TraceWriter, step: int, rows: int, tensors: int, layers: int, rng: np.random.Generator) -> None:
    writer.add_row("tensors", step, {name: rng.random(tensors) for name in PROBES})
    writer.add_row("layers", step, {"layer_delta": rng.random(layers) * step / rows})
    if step % SWEEP == 1:
        values = np.sort(rng.random((tensors, VALUES)))[:, ::-1]
        ranks = {name: 1 + 50 * rng.random(tensors) for name in RANKS}
        writer.add_row("spectra", step, {**ranks, "singular_values": values, "measured_step": [step] * tensors})
    right = (rng.random((PROMPTS, GENERATIONS)) < 0.1 + 0.8 * step / rows).astype(float)
    batch = {
        "prompt_id": rng.integers(0, 5000, PROMPTS),
        "reward": right,
        "length": np.full(right.shape, 100.0),
        "terminated": np.ones(right.shape),
        "advantage": right - right.mean(axis=1, keepdims=True),
        "rewards": right[..., None],
    }
    writer.add_row("rollouts", step, batch)
    logged = {"reward": float(right.mean()), "entropy": 1.0, "recorder_seconds": 0.05, "step_seconds": 5.0}
    writer.add_row("metrics", step, {**logged, "learning_rate": 1e-6, "grad_norm": 0.1})


def _info(layer: int, module: str, kind: str, rows: int, cols: int) -> TensorInfo:
    block = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
    name = f"model.layers.{layer}.{block}.{module}.weight"
    return TensorInfo(name, layer, module, "model.layers", kind, rows, cols, "float32", True, "full")


def opening_seconds(page: Path) -> list[float]:
    """Return how long a browser takes to open the page; nothing where there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  # optional
    except ImportError:
        return []
    if chromium is None:
        return []
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(5):
            tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="load", timeout=300_000)
            tab.evaluate("Promise.all([...document.images].map(image => image.decode()))")
            taken.append(time.perf_counter() - start)
            tab.context.close()
        browser.close()
    return taken


def main() -> None:
    """Write the run, make its report, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--layers", type=int, default=80)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_dir, out = Path(folder) / "run", Path(folder) / "report"
        write_run(run_dir, options.tensors, options.rows, options.layers)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "grpodyn", "report", str(run_dir), "-o", str(out)], check=True)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = (out / PAGE).stat().st_size / 1e6
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{options.tensors} tensors × {options.rows} rows, {options.layers} layers")
        print(f"wall time           {wall:6.1f} s   budget 60 s")
        print(f"CPU time            {cpu:6.1f} s   (the wall time of a machine that has nothing else to do is near it)")
        print(f"largest process     {after.ru_maxrss / 1e6:6.2f} GB  budget 2 GB")
        print(f"{PAGE}         {size:6.2f} MB  budget 5 MB", flush=True)
        opened = opening_seconds(out / PAGE)
        if opened:
            print(f"opens in            {statistics.median(opened):6.2f} s   budget 1 s (median of {len(opened)})")


if __name__ == "__main__":
    main()
