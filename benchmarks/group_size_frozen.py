"""Dead groups foretold from G=16 against dead groups sampled: frozen checkpoints of the embedded run.

    python benchmarks/group_size_frozen.py [--steps 20 40 60] [--groups 3072] [--json FILE]

Trains the embedded default, keeps its weights at the given steps, and samples groups of 2, 4, 8 and 16 from the base
and from each of them, every group of its own prompt, with the generation settings of training. From the groups of 16
alone the smaller sizes are foretold; from those of 4 and 8 larger ones. Exits 1 if a forecast from 16 misses by more
than .03.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PrinterCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

from grpodyn.embedded import MODEL_DIR
from grpodyn.embedded.defaults import GRPO, REWARDS, TASK
from grpodyn.groups.outcomes import TOTAL, Groups
from grpodyn.groups.table import OutcomeTable
from grpodyn.rewards import reward
from grpodyn.statistics import wilson
from grpodyn.tasks import Examples, task
from grpodyn.training.quiet import quiet_libraries

SIZES = (2, 4, 8, 16)
MARGIN = 0.03
BATCH = 1024
"""Completions sampled at once."""


def checkpoints(steps: list[int], folder: Path) -> dict[int, Path]:
    """Train the embedded default once; return the folders of its weights at the given steps and of the base at 0."""
    set_seed(0)
    every = int(np.gcd.reduce(steps))
    settings = {**GRPO, "max_steps": max(steps), "save_strategy": "steps", "save_steps": every}
    arguments = {"save_only_model": True, "report_to": "none", "disable_tqdm": True, "seed": 0, "use_cpu": True}
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(MODEL_DIR),
        reward_funcs=[reward(name) for name in REWARDS],
        args=GRPOConfig(output_dir=str(folder), **arguments, **settings),
        train_dataset=task(TASK).to_dataset("train"),
        processing_class=AutoTokenizer.from_pretrained(MODEL_DIR),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return {0: MODEL_DIR} | {step: folder / f"checkpoint-{step}" for step in steps}


@torch.no_grad()
def right_counts(model: Any, tokenizer: Any, examples: Examples, g: int) -> NDArray[np.int64]:
    """Return how many of g sampled completions earned the reward, for each prompt."""
    settings = GenerationConfig(
        max_new_tokens=GRPO["max_completion_length"],
        do_sample=True,
        temperature=GRPO["temperature"],
        top_k=0,
        top_p=1.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    scored = reward(REWARDS[0])
    counts: list[int] = []
    for start in range(0, len(examples), BATCH // g):
        part = slice(start, start + BATCH // g)
        prompts = [prompt for prompt in examples.prompts[part] for _ in range(g)]
        answers = [answer for answer in examples.answers[part] for _ in range(g)]
        encoded = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        ids = model.generate(
            encoded["input_ids"], attention_mask=encoded["attention_mask"], generation_config=settings
        )[:, encoded["input_ids"].shape[1] :]
        completions = tokenizer.batch_decode(ids, skip_special_tokens=True)
        earned = scored(prompts=prompts, completions=completions, answer=answers)
        counts += np.reshape(earned, (-1, g)).sum(1).astype(int).tolist()
    return np.array(counts, np.int64)


def table(right: NDArray[np.int64], g: int) -> OutcomeTable:
    """Return the group table of right counts of g, one prompt a group."""
    correct = np.arange(g) < right[:, None]
    prompt = np.arange(len(right))
    return OutcomeTable(Groups(prompt, prompt * 0, correct.astype(float), correct, TOTAL, 0, ()), right)


def cell(step: int, from_g: int, to_g: int, counts: dict[int, NDArray[np.int64]]) -> dict[str, Any]:
    """Return one forecast beside what was sampled."""
    foretold = table(counts[from_g], from_g).dead(to_g)
    dead = int(np.sum((counts[to_g] == 0) | (counts[to_g] == to_g)))
    sampled = wilson(dead, len(counts[to_g]))
    return {
        "step": step,
        "from": from_g,
        "to": to_g,
        "foretold": foretold.value,
        "low": foretold.low,
        "high": foretold.high,
        "sampled": sampled.value,
        "sampled_low": sampled.low,
        "sampled_high": sampled.high,
        "groups": len(counts[to_g]),
    }


def main() -> int:
    """Print a row a forecast; return 1 if one from G=16 misses by more than the margin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[20, 40, 60])
    parser.add_argument("--groups", type=int, default=3072)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    everything = task(TASK).split("train")
    rows = []
    print("| step | from G | to G | foretold | 95 % | sampled | off by |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, quiet_libraries():
        tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
        for step, path in checkpoints(asked.steps, Path(folder)).items():
            model = AutoModelForCausalLM.from_pretrained(path).eval()
            order = np.random.default_rng(step).permutation(len(everything))
            counts = {}
            for g in SIZES:
                # Prompts of their own in every cell: a forecast for new prompts is what a run needs.
                chosen, order = order[: asked.groups], np.roll(order, -asked.groups)
                examples = Examples(
                    tuple(everything.prompts[i] for i in chosen), tuple(everything.answers[i] for i in chosen)
                )
                torch.manual_seed(100 * step + g)
                counts[g] = right_counts(model, tokenizer, examples, g)
            for from_g, to_g in ((16, 2), (16, 4), (16, 8), (16, 16), (8, 16), (4, 8), (4, 16)):
                rows.append(cell(step, from_g, to_g, counts))
                row = rows[-1]
                print(
                    f"| {step} | {from_g} | {to_g} | {row['foretold']:.3f} | {row['low']:.3f}–{row['high']:.3f} | "
                    f"{row['sampled']:.3f} | {row['foretold'] - row['sampled']:+.3f} |",
                    flush=True,
                )
    worst = max(abs(row["foretold"] - row["sampled"]) for row in rows if row["from"] == max(SIZES))
    print(f"\nlargest error of a forecast from G={max(SIZES)}: {worst:.3f} (accepted {MARGIN})")
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(worst > MARGIN)


if __name__ == "__main__":
    sys.exit(main())
