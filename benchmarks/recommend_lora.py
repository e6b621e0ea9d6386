"""What advice costs on a large trace: 3,000 tensors × 2,000 rows, beyond importing PEFT and transformers.

    python benchmarks/recommend_lora.py [--layers 428]

The dry run builds every module of the model with PEFT on the meta device, so its share grows with the layers.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

PROBES = ("update_norm", "update_ratio", "grad_norm", "delta_norm")
SHAPES = {
    "q_proj": (4096, 4096),
    "k_proj": (1024, 4096),
    "v_proj": (1024, 4096),
    "o_proj": (4096, 4096),
    "gate_proj": (12288, 4096),
    "up_proj": (12288, 4096),
    "down_proj": (4096, 12288),
}


def write_run(run_dir: Path, tensors: int, rows: int, layers: int) -> None:
    """Write a synthetic run of a Qwen3-shaped model; tensors beyond its linear modules stand for norms."""
    names = [(layer, module) for layer in range(layers) for module in SHAPES][:tensors]
    infos = [_info(layer, module, "linear", *SHAPES[module]) for layer, module in names]
    infos += [_info(i % layers, f"norm_{i // layers}", "norm", 4096, 1) for i in range(tensors - len(infos))]
    # Everything else is the family's default, and importing transformers here would hide its cost.
    config = {"model_type": "qwen3", "num_hidden_layers": layers}
    model = {"name": "synthetic", "class": "Qwen3ForCausalLM", "config": config}
    writer = TraceWriter.create(run_dir, Manifest(model=model, trainer={"arguments": {"learning_rate": 1e-6}}))
    writer.declare_tensors(infos)
    writer.declare_arrays("tensors", {name: ArraySpec(("row", "tensor")) for name in PROBES})
    rng = np.random.default_rng(0)
    for step in range(1, rows + 1):
        writer.add_row("tensors", step, {name: rng.random(tensors) for name in PROBES})
    writer.close("finished")


def _info(layer: int, module: str, kind: str, rows: int, cols: int) -> TensorInfo:
    block = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
    name = f"model.layers.{layer}.{block}.{module}.weight"
    return TensorInfo(name, layer, module, "model.layers", kind, rows, cols, "float32", True, "full")


def main() -> None:
    """Time opening, movement and checked advice in one process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--layers", type=int, default=80, help="layers of the model (7 linear modules each)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        write_run(run_dir, options.tensors, options.rows, options.layers)
        start = time.perf_counter()
        import peft  # noqa: F401, PLC0415
        import transformers  # noqa: F401, PLC0415

        imported = time.perf_counter()
        from grpodyn.lora.advice import advise  # noqa: PLC0415
        from grpodyn.lora.policy import Options  # noqa: PLC0415
        from grpodyn.trace.reader import open_run  # noqa: PLC0415

        advice = advise(open_run(run_dir), Options())
        done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{options.tensors} tensors × {options.rows} rows, {len(advice.modules)} modules in the dry run")
    print(f"import peft, transformers   {imported - start:6.2f} s")
    print(f"advice beyond that          {done - imported:6.2f} s   budget 3 s")
    print(f"peak memory                 {peak:6.2f} GB  budget 1 GB")


if __name__ == "__main__":
    main()
