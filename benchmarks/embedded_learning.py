"""Does the embedded model learn, and is it learning rather than cooling? Full fine-tuning and LoRA, recorder on.

    python benchmarks/embedded_learning.py [--seeds 0 1 2] [--steps N]

Exits 1 if a run misses what the embedded default promises on held-out prompts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from grpodyn import Recorder
from grpodyn.embedded import MODEL_DIR
from grpodyn.embedded.defaults import GRPO, LORA_GRPO, REWARDS, TASK
from grpodyn.evaluation import HeldOutAccuracy, held_out_accuracy
from grpodyn.rewards import reward
from grpodyn.tasks import task

HELD_OUT = task(TASK).split("report").head(1000)
GAIN, OVER_BEST_TEMPERATURE, GREEDY_GAIN, SECONDS = 0.25, 0.10, 0.10, 180.0


@dataclass(frozen=True)
class Outcome:
    """One training run, seen on held-out prompts."""

    base: HeldOutAccuracy
    trained: HeldOutAccuracy
    seconds: float

    def broken_promises(self) -> list[str]:
        """Return what the run misses."""
        kept = {
            f"gain at T=1 >= {GAIN}": self.trained.accuracy - self.base.accuracy >= GAIN,
            f"base at its best temperature stays {OVER_BEST_TEMPERATURE} below": (
                self.trained.accuracy - self.base.best >= OVER_BEST_TEMPERATURE
            ),
            f"greedy gain >= {GREEDY_GAIN}": self.trained.greedy - self.base.greedy >= GREEDY_GAIN,
            f"{SECONDS:.0f} s": self.seconds <= SECONDS,
        }
        return [promise for promise, is_kept in kept.items() if not is_kept]


def train(settings: dict[str, Any], lora: LoraConfig | None, seed: int, directory: Path) -> Outcome:
    """Train with the recorder on and return held-out accuracies and the wall time of training."""
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    model = AutoModelForCausalLM.from_pretrained(MODEL_DIR)
    base = held_out_accuracy(model, tokenizer, HELD_OUT)
    trainer = GRPOTrainer(
        model,
        reward_funcs=[reward(name) for name in REWARDS],
        args=GRPOConfig(
            output_dir=str(directory / "trainer"),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=seed,
            **settings,
        ),
        train_dataset=task(TASK).to_dataset("train"),
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[Recorder(directory / "run")],
    )
    trainer.remove_callback(PrinterCallback)
    start = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - start
    return Outcome(base, held_out_accuracy(trainer.model, tokenizer, HELD_OUT), seconds)


def main() -> None:
    """Run every arm and seed, print a table, and fail if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=GRPO["max_steps"])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # The trainer libraries' own deprecations are not this script's news.
    warnings.filterwarnings("ignore", category=FutureWarning)

    arms = {
        "full": (GRPO, None),
        "lora r=16": (LORA_GRPO, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")),
    }
    broken = False
    print(f"{'arm':<10} {'seed':>4} {'lr':>8} {'seconds':>8}   base T=1  best (T)     greedy   trained T=1  greedy")
    for arm, (settings, lora) in arms.items():
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as directory:
                run = train(settings | {"max_steps": arguments.steps}, lora, seed, Path(directory))
            base, trained = run.base, run.trained
            print(
                f"{arm:<10} {seed:>4} {settings['learning_rate']:>8.0e} {run.seconds:>8.1f}   {base.accuracy:>8.3f}  "
                f"{base.best:.3f} ({base.best_temperature:g})  {base.greedy:.3f}    {trained.accuracy:>11.3f}  "
                f"{trained.greedy:>6.3f}  {'; '.join(run.broken_promises())}"
            )
            broken |= bool(run.broken_promises())
    sys.exit(broken)


if __name__ == "__main__":
    main()
