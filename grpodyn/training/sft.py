"""Supervised fine-tuning as a stage of a run: TRL's `SFTTrainer` on prompts and the answers to learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from grpodyn.config.batching import world_size
from grpodyn.config.run import RunConfig
from grpodyn.config.task import TaskConfig
from grpodyn.errors import ConfigError
from grpodyn.training import data
from grpodyn.training.arguments import TRAINER_DEFAULTS, check_keys, check_ranges, device_defaults

OF_THE_RUN = ("logging_steps", "logging_strategy", "report_to", "save_steps", "save_strategy", "save_total_limit")
"""Keys that hold for all stages, and are written in `grpo`: a trainer that goes on keeps the cadence it began with."""


def sft_arguments(config: RunConfig, checkpoints: Path) -> SFTConfig:
    """Return the trainer's arguments; what the config says wins over the defaults chosen here.

    Raises:
        ConfigError: a key that `SFTConfig` does not have, one that is written in `grpo`, a value of another type, or
            one that TRL refuses.
    """
    given = {} if config.sft is None else config.sft.trainer
    check_keys(given, SFTConfig, "sft.trainer")
    misplaced = [key for key in OF_THE_RUN if key in given]
    if misplaced:
        raise ConfigError(f"`sft.trainer.{misplaced[0]}` holds for all stages of a run; write `grpo.{misplaced[0]}`")
    shared = {key: config.grpo[key] for key in OF_THE_RUN if key in config.grpo}
    arguments: dict[str, Any] = {
        **device_defaults(given),
        **TRAINER_DEFAULTS,
        # As in the `grpo` section: what is not said there either is TRL's own default.
        **{
            key: config.grpo[key] for key in ("gradient_checkpointing", "bf16", "fp16", "use_cpu") if key in config.grpo
        },
        **shared,
        **given,
        "output_dir": str(checkpoints),
        "seed": config.seed,
        "trust_remote_code": config.model.trust_remote_code,
    }
    check_ranges(arguments, "sft.trainer")
    try:
        return SFTConfig(**arguments)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"TRL refuses the sft section: {' '.join(str(error).split())}") from error


def sft_examples(task: TaskConfig) -> Dataset:
    """Return what is learned, in the columns `prompt` and `completion`.

    Raises:
        ConfigError: there are no answers, or a row's is no text.
        UnknownNameError: no task, or no split of the task, has that name.
    """
    prompts = data.train_prompts(task)
    if "answer" not in prompts.column_names:
        raise ConfigError("sft learns the right answers, and there are none: set task.answer to their column")
    wrong = next((value for value in prompts["answer"] if not isinstance(value, str) or not value), None)
    if wrong is not None:
        raise ConfigError(f"sft learns answers that are text, found {wrong!r} in the column of task.answer")
    talks = not isinstance(prompts[0]["prompt"], str)

    def paired(row: dict[str, Any]) -> dict[str, Any]:
        answer = row["answer"]
        return {"prompt": row["prompt"], "completion": [{"role": "assistant", "content": answer}] if talks else answer}

    return prompts.map(paired, remove_columns=[name for name in prompts.column_names if name != "prompt"])


def sft_steps(arguments: SFTConfig, examples: int, processes: int | None = None) -> int:
    """Return the optimizer steps of the stage, with so many processes; None for as many as there are."""
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    batch = int(
        arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * (processes or world_size())
    )
    return math.ceil(float(arguments.num_train_epochs) * max(1, math.ceil(examples / batch)))


def assemble_sft(
    arguments: SFTConfig,
    model: Any,
    tokenizer: Any,
    examples: Dataset,
    lora: LoraConfig | None,
    callbacks: Sequence[Any],
) -> Any:
    """Return TRL's trainer for parts that are already loaded.

    Raises:
        ConfigError: TRL refuses the parts.
    """
    try:
        trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=examples,
            processing_class=tokenizer,
            peft_config=lora,
            callbacks=list(callbacks),
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigError(f"TRL cannot build the sft stage: {' '.join(str(error).split())}") from error
    trainer.remove_callback(PrinterCallback)
    return trainer
