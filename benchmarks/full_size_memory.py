"""What `record --plan` says of every config in `configs/full`, without a download: the table of docs/full-size.md.

python benchmarks/full_size_memory.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import AutoConfig

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from grpodyn.config import run  # noqa: E402
from grpodyn.config.launch import Launch, read_launch  # noqa: E402
from grpodyn.training.plan import Prompts, estimate  # noqa: E402
from grpodyn.training.quiet import quiet_libraries  # noqa: E402
from tests.training.full_size import ARCHITECTURES  # noqa: E402

NODE = ROOT / "configs" / "full" / "fsdp2_8.yaml"
# GSM8K's training split; prompts up to the limit of the configs.
PROMPTS = Prompts(count=7473, mean_tokens=120.0, most_tokens=256)
COLUMNS = ("weights", "gradients", "optimizer", "activations", "logits", "generation_weights", "generation_cache")


def main() -> None:
    """Print one row a config, in GB a device."""
    print(f"| config | GPUs | trained | {' | '.join(name.replace('_', ' ') for name in COLUMNS)} | peak |")
    for path in sorted(NODE.parent.glob("*.yaml")):
        if path == NODE:
            continue
        launch = read_launch(NODE) if NODE.name in path.read_text(encoding="utf-8") else Launch()
        config = run.load(path)
        facts = dict(ARCHITECTURES[config.model.path])
        plan = estimate(config, AutoConfig.for_model(facts.pop("model_type"), **facts), PROMPTS, launch)
        sizes = [getattr(plan.memory, name) for name in COLUMNS] + [plan.memory.total]
        figures = " | ".join("?" if size is None else f"{size / 1e9:.2f}" for size in sizes)
        print(f"| `{path.stem}` | {launch.processes} | {plan.trainable_parameters / 1e6:.1f} M | {figures} |")


if __name__ == "__main__":
    with quiet_libraries():
        main()
