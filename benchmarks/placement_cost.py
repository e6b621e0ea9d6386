"""What the placement study at 1.5B costs, without a download: the figures of docs/full-size.md.

python benchmarks/placement_cost.py [--tokens-per-second 4000]

Trainings, steps and completions are counted from the protocol; tokens are at most those of completions at full length.
Hours follow from an assumed speed of one GPU, sampling and training together, which nothing here has measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from transformers import AutoConfig

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from grpodyn.ablation.protocol import load_study  # noqa: E402
from grpodyn.ablation.schedule import total  # noqa: E402
from grpodyn.config.launch import Launch  # noqa: E402
from grpodyn.training.plan import Prompts, estimate  # noqa: E402
from grpodyn.training.quiet import quiet_libraries  # noqa: E402
from tests.training.full_size import ARCHITECTURES  # noqa: E402

PROMPTS = Prompts(count=5000, mean_tokens=120.0, most_tokens=256)
GPUS = 8


def main() -> None:
    """Print a row a task, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens-per-second", type=float, default=4000.0, help="of one GPU, assumed")
    speed = parser.parse_args().tokens_per_second
    study, configs = load_study(ROOT / "configs/studies/placement-1p5b/study.yaml")
    print("| task | trainings | steps each | completions | tokens at most | GPU hours | GB of the source run |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    hours = 0.0
    for name, config in configs.items():
        facts = dict(ARCHITECTURES[config.model.path])
        plan = estimate(config, AutoConfig.for_model(facts.pop("model_type"), **facts), PROMPTS, Launch())
        trainings = total(study, study.arms) + 1  # and the source run
        steps = int(config.grpo["max_steps"])
        completions = trainings * steps * config.grpo["per_device_train_batch_size"]
        completions *= config.grpo["gradient_accumulation_steps"]
        measured = trainings * study.measure.prompts * (study.measure.samples or 1)
        tokens = (completions + measured) * config.grpo["max_completion_length"]
        hours += tokens / speed / 3600
        peak = plan.memory.total
        print(
            f"| {name} | {trainings} | {steps} | {completions / 1e6:.2f} M | {tokens / 1e9:.2f} G "
            f"| {tokens / speed / 3600:.0f} | {'?' if peak is None else f'{peak / 1e9:.1f}'} |"
        )
    print(f"\n{hours:.0f} GPU hours at {speed:g} tokens a second: {hours / GPUS:.0f} hours on {GPUS} GPUs")


if __name__ == "__main__":
    with quiet_libraries():
        main()
