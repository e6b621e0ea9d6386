"""Do the study tasks teach a skill, at rates that leave room to tell arms apart? Real runs of their configs.

    python benchmarks/study_tasks.py [CONFIG…] [--seeds 0 1 2] [-o results.json]

Without CONFIG, all of configs/studies/tasks. Prints, for each run, the base and the tuned model on held-out prompts:
at T=1, greedily, the base at its best temperature and at the temperature of the tuned model's entropy; the skill gain
is what the tuned model has above that. Exits 1 if a run misses what the study tasks promise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from rich.console import Console

from grpodyn.config import run
from grpodyn.evaluation import SkillGain, skill_gain
from grpodyn.tasks import task
from grpodyn.training.display import display_for
from grpodyn.training.loading import load_model, load_tokenizer
from grpodyn.training.quiet import quiet_libraries
from grpodyn.training.session import train

CONFIGS = Path(__file__).parents[1] / "configs" / "studies" / "tasks"
GREEDY_GAIN, SKILL_GAIN, ROOM, SECONDS = 0.10, 0.10, (0.5, 0.97), 60.0
"""What every run promises; `ROOM` is where its accuracy at T=1 lies, so that a better or worse arm can show."""


@dataclass(frozen=True)
class Row:
    """One run, on held-out prompts."""

    config: str
    seed: int
    prompts: int
    seconds: float
    """CPU seconds of training and of the recorder."""
    numbers: dict[str, float]

    def broken_promises(self) -> list[str]:
        """Return what the run misses."""
        kept = {
            f"greedy gain >= {GREEDY_GAIN}": self.numbers["greedy_gain"] >= GREEDY_GAIN,
            f"skill gain >= {SKILL_GAIN}": self.numbers["skill_gain"] >= SKILL_GAIN,
            f"{GREEDY_GAIN} above the base at its best temperature": (
                self.numbers["tuned"] - self.numbers["base_best"] >= GREEDY_GAIN
            ),
            f"accuracy in {ROOM}": ROOM[0] <= self.numbers["tuned"] <= ROOM[1],
            f"{SECONDS:.0f} CPU s": self.seconds <= SECONDS,
        }
        return [promise for promise, is_kept in kept.items() if not is_kept]


def tuned_model(config: run.RunConfig, folder: Path) -> Any:
    """Return what a run has trained: the whole model, or the base with its adapter."""
    if config.lora is None:
        return load_model(config.model.model_copy(update={"path": str(folder)}))
    return PeftModel.from_pretrained(load_model(config.model), folder)


def measure(config: run.RunConfig, folder: Path, split: str) -> SkillGain:
    """Return the tuned model beside its base on a split of the config's task."""
    assert config.task.name is not None
    return skill_gain(
        load_model(config.model),
        tuned_model(config, folder),
        load_tokenizer(config.model),
        task(config.task.name).split(split).head(1000),
        max_new_tokens=config.grpo["max_completion_length"],
    )


def run_once(path: Path, seed: int, split: str) -> Row:
    """Train one config with one seed and measure it."""
    config = run.load(path, [f"seed={seed}", "evaluate=null", "record.preset=light"])
    load_model(config.model)  # a base that is not there yet is built outside the measured time
    with tempfile.TemporaryDirectory() as directory:
        begun = time.process_time()
        trained = train(config, Path(directory) / "run", display_for(Console(quiet=True)))
        seconds = time.process_time() - begun
        measured = measure(config, trained.run_dir / "model", split)
    return Row(path.stem, seed, measured.base.n, round(seconds, 1), measured.metrics())


COLUMNS = {
    "base": "base T=1",
    "base_greedy": "greedy",
    "base_best": "best T",
    "base_matched": "matched",
    "matched_temperature": "(T)",
    "tuned": "tuned T=1",
    "tuned_greedy": "greedy",
    "greedy_gain": "greedy gain",
    "skill_gain": "skill gain",
}


def show(row: Row) -> None:
    """Print a row of the table."""
    cells = "  ".join(f"{row.numbers[key]:>{len(title)}.3f}" for key, title in COLUMNS.items())
    print(
        f"{row.config:<28} {row.seed:>4}  {cells}  {row.seconds:>5.1f}  {'; '.join(row.broken_promises())}", flush=True
    )


def main() -> None:
    """Run every config and seed, print a table, and fail if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", type=Path, nargs="*", metavar="CONFIG")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--split", default="confirm", help="held-out prompts to measure on; report is for results")
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'config':<28} {'seed':>4}  {'  '.join(COLUMNS.values())}  CPU s")
    rows = []
    for path in arguments.configs or sorted(CONFIGS.glob("*.yaml")):
        of_config = []
        for seed in arguments.seeds:
            with quiet_libraries():
                of_config.append(run_once(path, seed, arguments.split))
            show(of_config[-1])
        if len(of_config) > 1:
            spread = statistics.stdev(row.numbers["tuned"] for row in of_config)
            print(f"{path.stem:<28} SD of the tuned accuracy over seeds: {spread:.3f}", flush=True)
        rows += of_config
    if arguments.output is not None:
        arguments.output.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    sys.exit(any(row.broken_promises() for row in rows))


if __name__ == "__main__":
    main()
