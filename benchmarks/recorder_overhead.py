"""What recording costs a GRPO run: the same training without it, with each preset, and with what one might use instead.

    python benchmarks/recorder_overhead.py                     # the embedded model
    python benchmarks/recorder_overhead.py --lora 16
    python benchmarks/recorder_overhead.py --random-model 640,2048,18,262144 --batch 16 --length 64 --steps 7

Each arm trains in a process of its own, arms in turns. Printed per arm, over the CPU seconds of a step of training
without it: the *steady* cost of a step, put together from the steps that were measured as the preset's cadence repeats
them (a plain step, one with displacements in five, one sweep of spectra in 25); the cost of both *ends* in steps; and
the growth of peak anonymous memory. The floor is the time to read once, at the speed of this machine's memory, what a
plain step must read. On a machine with a CUDA device training runs there, and the figures are that machine's.

Budgets (standard preset, a model of 0.27 billion parameters): 2 % and 10 % with full fine-tuning, 1 % and 2 % with LoRA
r=16.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from peft import LoraConfig
from rivals import NaiveRecorder, WandbWatch, read_seconds_per_gigabyte, wandb_is_there
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from grpodyn import Recorder
from grpodyn.config.record import PRESETS, RecordConfig
from grpodyn.embedded import MODEL_DIR, defaults
from grpodyn.rewards.catalogue import reward
from grpodyn.tasks import task

STATUS = Path("/proc/self/status")


@dataclass
class Run:
    """One training."""

    cpu: float
    wall: float
    peak: float
    """Peak anonymous memory above that of the start, in MB; nan where the system does not tell."""
    before: float
    """Anonymous memory before training, in MB."""
    steps: list[float]
    """CPU seconds that the training thread spends in the recorder, one a step, both ends included: a sweep of spectra
    goes on beside later steps, and is no part of them."""
    total: float
    """CPU seconds of the recorder in all, on every thread."""
    read_bytes: float
    """What a plain step has to read: gradients, and weights before and after the step."""


class ForegroundClock(transformers.TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Notes after each step what the training thread has spent in a recorder so far."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._so_far = [0.0]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note it; what is logged after the last step counts for the next."""
        self._so_far.append(self._recorder.cost.foreground_seconds)

    @property
    def steps(self) -> list[float]:
        """CPU seconds of each step."""
        return [after - before for before, after in itertools.pairwise(self._so_far)]


@dataclass
class PeakMemory:
    """Samples the anonymous memory of the process while a block runs; file-backed pages do not count."""

    start: float = float("nan")
    peak: float = float("nan")
    _done: threading.Event = field(default_factory=threading.Event)

    @staticmethod
    def now() -> float:
        """Return the anonymous memory of the process in MB; nan where the system does not tell."""
        if not STATUS.exists():
            return float("nan")
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    def _watch(self) -> None:
        # Often: the logits of a large vocabulary come and go within a step, and are its peak.
        while not self._done.wait(0.02):
            self.peak = max(self.peak, self.now())

    def __enter__(self) -> PeakMemory:
        gc.collect()
        self.start = self.peak = self.now()
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()


def train(options: argparse.Namespace, arm: str, folder: Path) -> Run:
    """Train once with an arm: `off`, a preset, `naive` or `wandb`."""
    recorder = Recorder(folder / "run", RecordConfig(preset=arm)) if arm in PRESETS else None
    naive = NaiveRecorder(spectra=True) if arm == "naive" else None
    watch = WandbWatch(folder / "wandb") if arm == "wandb" else None
    clock = ForegroundClock(recorder) if recorder else None
    arguments = {
        **defaults.GRPO,
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": False,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 1,
        "output_dir": str(folder / "output"),
        "max_steps": options.steps,
        "per_device_train_batch_size": options.batch,
        "max_completion_length": options.length,
    }
    lora = None
    if options.lora:
        lora = LoraConfig(r=options.lora, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    examples = task(defaults.TASK).split("train")
    trainer = GRPOTrainer(
        # From disk: that is where a checkpoint is mapped from.
        model=AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        args=GRPOConfig(**arguments),
        reward_funcs=[noise] if options.random_model else [reward(name) for name in defaults.REWARDS],
        train_dataset=datasets.Dataset.from_dict({"prompt": examples.prompts, "answer": examples.answers}),
        processing_class=AutoTokenizer.from_pretrained(MODEL_DIR),
        callbacks=[callback for callback in (recorder, clock, naive, watch) if callback],
        peft_config=lora,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    with PeakMemory() as memory:
        cpu, wall = time.process_time(), time.perf_counter()
        trainer.train()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    steps = naive.seconds if naive else []
    total = sum(steps)
    if recorder and clock:
        steps, total = clock.steps, recorder.cost.seconds
    trained = sum(p.numel() * p.element_size() for p in trainer.model.parameters() if p.requires_grad)
    return Run(cpu, wall, memory.peak - memory.start, memory.start, steps, total, 3.0 * trained)


def noise(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Reward a completion by its checksum: a random model never answers right, and without spread nothing moves."""
    return [zlib.crc32(repr(list(ids)).encode()) / 2**32 for ids in completion_ids]


def random_model(shape: str, folder: Path) -> Path:
    """Save a random Qwen3-shaped model of `hidden,intermediate,layers,vocabulary` and return its folder."""
    hidden, intermediate, layers, vocabulary = (int(part) for part in shape.split(","))
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        num_key_value_heads=max(1, hidden // 128),
        head_dim=64,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    print(f"random model: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters")
    model.save_pretrained(folder)
    return folder


def in_own_process(options: argparse.Namespace, arm: str) -> Run:
    """Train an arm in a process of its own: one arm's memory is not another's."""
    command = [sys.executable, __file__, "--child", arm, "--model", str(options.model)]
    for name in ("steps", "lora", "batch", "length"):
        command += [f"--{name}", str(getattr(options, name))]
    if options.random_model:
        command += ["--random-model", options.random_model]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def steady(run: Run) -> float:
    """Return the recorder's CPU seconds of an average step, the ends apart: its parts as its cadence repeats them."""
    middle = run.steps[1:-1]
    displaced = [seconds for i, seconds in enumerate(middle, start=2) if i % 5 == 0]
    plain = statistics.median(seconds for i, seconds in enumerate(middle, start=2) if i % 5)
    every_fifth = max(0.0, statistics.median(displaced) - plain) if displaced else 0.0
    sweep = max(0.0, run.total - sum(middle) - 2 * plain) / 2  # the ends are a plain step and a sweep each
    return plain + every_fifth / 5 + sweep / 25


def report(arm: str, runs: Sequence[Run], off: Sequence[Run]) -> None:
    """Print one row of the table."""
    step = statistics.median(run.cpu for run in off) / len(runs[0].steps or [1])
    alone = statistics.median(run.before + run.peak for run in off)
    memory = statistics.median(run.before + run.peak for run in runs) - alone
    if runs[0].steps:
        middle = statistics.median(sum(run.steps[1:-1]) for run in runs)
        ends = (statistics.median(run.total for run in runs) - middle) / step
        shown = f"{statistics.median(steady(run) for run in runs) / step:>10.2%}{ends:>12.2f} steps"
    else:
        shown = f"{'':>10}{'':>18}"
    paired = statistics.median(on.cpu / base.cpu - 1 for on, base in zip(runs, off, strict=True))
    print(f"{arm:<10}{shown}{paired:>14.1%}{memory:>9.0f} MB ({memory / alone:+.1%})")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What recording costs a GRPO run.")
    parser.add_argument("--steps", type=int, default=50, help="at least 7: one of each kind, and both ends")
    parser.add_argument("--repeats", type=int, default=2, help="rounds over the arms")
    parser.add_argument("--arms", nargs="+", choices=[*PRESETS, "naive", "wandb"], default=[*PRESETS, "naive", "wandb"])
    parser.add_argument("--lora", type=int, default=0, metavar="R", help="rank; 0 trains all parameters")
    parser.add_argument("--batch", type=int, default=defaults.GRPO["per_device_train_batch_size"])
    parser.add_argument("--length", type=int, default=defaults.GRPO["max_completion_length"])
    parser.add_argument("--random-model", metavar="HIDDEN,INTERMEDIATE,LAYERS,VOCABULARY")
    parser.add_argument("--model", default=str(MODEL_DIR), help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.getLogger("grpodyn").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        if options.child:
            print(json.dumps(asdict(train(options, options.child, Path(scratch)))))
            return
        if options.random_model:
            options.model = random_model(options.random_model, Path(scratch) / "model")
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Run all arms in turns and print the table."""
    arms = [arm for arm in options.arms if arm != "wandb" or wandb_is_there()]
    if len(arms) < len(options.arms):
        print("wandb is not installed: its arm is left out")
    rounds = [{arm: in_own_process(options, arm) for arm in ("off", *arms)} for _ in range(options.repeats)]
    off = [runs["off"] for runs in rounds]
    step = statistics.median(run.cpu for run in off) / options.steps
    tokens = options.batch * options.length
    floor = read_seconds_per_gigabyte() * off[0].read_bytes / 1e9
    print(
        f"{options.steps} steps, {options.repeats} rounds; training alone: {step:.3f} CPU s a step of ≤ {tokens} tokens"
    )
    print(f"floor: reading {off[0].read_bytes / 1e9:.3f} GB once takes {floor:.4f} CPU s, {floor / step:.2%} of a step")
    print(f"{'arm':<10}{'steady':>10}{'both ends':>18}{'CPU, paired':>14}{'peak memory':>12}")
    for arm in arms:
        report(arm, [runs[arm] for runs in rounds], off)


if __name__ == "__main__":
    main()
