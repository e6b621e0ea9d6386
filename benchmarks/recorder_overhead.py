"""What recording costs a GRPO run: the same training with and without the recorder, in turns, in one process.

    python benchmarks/recorder_overhead.py                     # the embedded model
    python benchmarks/recorder_overhead.py --lora 16
    python benchmarks/recorder_overhead.py --random-model 640,2048,18,262144 --batch 8 --length 128 --steps 3

Prints, per preset, the CPU seconds of all recorder threads over the CPU seconds of training without a recorder, the
paired difference of CPU and wall time, and the growth of peak anonymous memory. Budgets (standard preset, a model of
0.27 billion parameters): 2 % and 10 % with full fine-tuning, 1 % and 2 % with LoRA r=16.
"""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from grpodyn import Recorder
from grpodyn.config.record import PRESETS, Preset, RecordConfig
from grpodyn.embedded import MODEL_DIR, defaults
from grpodyn.rewards.catalogue import reward
from grpodyn.tasks import task

ROLLUP = Path("/proc/self/smaps_rollup")


@dataclass
class Run:
    """One training."""

    cpu: float
    wall: float
    recorder: float
    peak: float
    """Peak anonymous memory above that of the start, in MB; nan where the system does not tell."""


@dataclass
class PeakMemory:
    """Samples the anonymous memory of the process while a block runs; file-backed pages do not count."""

    start: float = float("nan")
    peak: float = float("nan")
    _done: threading.Event = field(default_factory=threading.Event)

    @staticmethod
    def now() -> float:
        """Return the anonymous memory of the process in MB; nan where the system does not tell."""
        if not ROLLUP.exists():
            return float("nan")
        line = next(line for line in ROLLUP.read_text().splitlines() if line.startswith("Anonymous"))
        return int(line.split()[1]) / 1024

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self.peak = max(self.peak, self.now())

    def __enter__(self) -> PeakMemory:
        gc.collect()
        self.start = self.peak = self.now()
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()


def load(options: argparse.Namespace) -> Any:
    """Return the model to train, from disk: that is where a checkpoint is mapped from."""
    return AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)


def train(options: argparse.Namespace, preset: Preset | None, folder: Path) -> Run:
    """Train once, with the recorder on if a preset is named."""
    recorder = Recorder(folder / "run", RecordConfig(preset=preset)) if preset else None
    arguments = {
        **defaults.GRPO,
        "use_cpu": True,
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
        model=load(options),
        args=GRPOConfig(**arguments),
        reward_funcs=[noise] if options.random_model else [reward(name) for name in defaults.REWARDS],
        train_dataset=datasets.Dataset.from_dict({"prompt": examples.prompts, "answer": examples.answers}),
        processing_class=AutoTokenizer.from_pretrained(MODEL_DIR),
        callbacks=[recorder] if recorder else [],
        peft_config=lora,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    with PeakMemory() as memory:
        cpu, wall = time.process_time(), time.perf_counter()
        trainer.train()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Run(cpu, wall, recorder.cost.seconds if recorder else 0.0, memory.peak - memory.start)


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


def report(preset: str, pairs: Sequence[tuple[Run, Run]], base_peak: float) -> None:
    """Print one row of the table."""
    recorder = statistics.median(on.recorder / off.cpu for off, on in pairs)
    cpu = statistics.median(on.cpu / off.cpu - 1 for off, on in pairs)
    wall = statistics.median(on.wall / off.wall - 1 for off, on in pairs)
    memory = statistics.median(on.peak - off.peak for off, on in pairs)
    print(f"{preset:<10}{recorder:>12.2%}{cpu:>14.2%}{wall:>14.2%}{memory:>12.0f} MB ({memory / base_peak:+.1%})")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What recording costs a GRPO run.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=2, help="runs with and without the recorder, in turns")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=["light", "standard"])
    parser.add_argument("--lora", type=int, default=0, metavar="R", help="rank; 0 trains all parameters")
    parser.add_argument("--batch", type=int, default=defaults.GRPO["per_device_train_batch_size"])
    parser.add_argument("--length", type=int, default=defaults.GRPO["max_completion_length"])
    parser.add_argument("--random-model", metavar="HIDDEN,INTERMEDIATE,LAYERS,VOCABULARY")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.getLogger("grpodyn").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        options.model = MODEL_DIR
        if options.random_model:
            options.model = random_model(options.random_model, Path(scratch) / "model")
        warm = argparse.Namespace(**{**vars(options), "steps": 2})
        train(warm, "standard", Path(scratch) / "warm")
        pairs: dict[str, list[tuple[Run, Run]]] = {preset: [] for preset in options.presets}
        for repeat in range(options.repeats):
            off = train(options, None, Path(scratch) / f"off-{repeat}")
            for preset in options.presets:
                on = train(options, preset, Path(scratch) / f"{preset}-{repeat}")
                pairs[preset].append((off, on))
    base = statistics.median(off.cpu for off, _ in pairs[options.presets[0]])
    with_weights = PeakMemory.now() + statistics.median(off.peak for off, _ in pairs[options.presets[0]])
    print(f"{options.steps} steps, {options.repeats} pairs; training alone: {base / options.steps:.3f} CPU s a step")
    print(f"{'preset':<10}{'recorder/CPU':>12}{'CPU, paired':>14}{'wall, paired':>14}{'peak memory':>15}")
    for preset, measured in pairs.items():
        report(preset, measured, with_weights)


if __name__ == "__main__":
    main()
