"""Builds the trainer that a run config describes, with the recorder attached.

Everything that can be wrong with the config is found here, before the run directory exists.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import LoraConfig
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from grpodyn.config.batching import batch_plan, world_size
from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import end_tokens
from grpodyn.evaluation.retention import Retention
from grpodyn.recording.recorder import Recorder
from grpodyn.rewards import RewardContext
from grpodyn.tasks import Examples
from grpodyn.training import checks, data, loading
from grpodyn.training.arguments import grpo_arguments, lora_arguments
from grpodyn.training.checkpoints import FOLDER
from grpodyn.training.early_stop import EarlyStop
from grpodyn.training.retention import retention

logger = logging.getLogger("grpodyn")


@dataclass(frozen=True)
class Training:
    """A trainer that is ready to train."""

    trainer: Any
    """TRL's `GRPOTrainer`."""
    recorder: Recorder
    held_out: Examples | None
    """What accuracy is measured on; None without evaluation."""
    retention: Retention | None = None
    """What else is measured beside it."""


def build_trainer(
    config: RunConfig, run_dir: Path, *, append: bool = False, before_recorder: Sequence[Any] = ()
) -> Training:
    """Return the trainer for a run config, recording into `run_dir`.

    Args:
        config: the run config.
        run_dir: where the recorder writes and checkpoints go.
        append: whether the run in `run_dir` goes on, also when it starts over from step 0.
        before_recorder: callbacks that ask for checkpoints or for the end: the recorder must see what they asked for.

    Raises:
        ConfigError, UnknownNameError: the config does not describe a run that can start.
    """
    batch_plan(config.grpo, world_size())
    arguments = grpo_arguments(config, run_dir / FOLDER)
    lora = lora_arguments(config)
    checks.reward_functions(config)  # a name that does not exist is found before anything is loaded
    prompts = data.train_prompts(config.task)
    held_out = None
    if config.evaluate is not None and config.evaluate.prompts:
        held_out = data.held_out(config.task, config.evaluate.split, config.evaluate.prompts)
    checks.check_columns(config, prompts)
    tokenizer = loading.load_tokenizer(config.model)
    prompts = checks.fitting(config, prompts, tokenizer)
    for caution in checks.cautions(config, tokenizer):
        logger.warning("caution: %s", caution)
    beside = retention(config, tokenizer, prompts, held_out)
    model = loading.load_model(config.model)
    recorder = Recorder(
        run_dir,
        config.record,
        save_model=True,
        append=append,
        manifest={
            "config": config.to_record(),
            "dataset": data.describe(config.task),
        },
    )
    callbacks = [*before_recorder, *_watch(config), recorder]
    try:
        trainer = assemble(config, arguments, model, tokenizer, prompts, lora, callbacks)
    except ConfigError:
        _remove_if_empty(run_dir / FOLDER, run_dir)
        raise
    return Training(trainer, recorder, held_out, beside)


def assemble(
    config: RunConfig,
    arguments: GRPOConfig,
    model: Any,
    tokenizer: Any,
    prompts: Any,
    lora: LoraConfig | None,
    callbacks: Sequence[Any],
) -> Any:
    """Return TRL's trainer for parts that are already loaded; several runs can share a tokenizer and prompts.

    Raises:
        ConfigError: TRL refuses the parts.
        UnknownNameError: there is no such reward.
    """
    context = RewardContext(tuple(end_tokens(model, tokenizer)), arguments.max_completion_length)
    try:
        trainer = GRPOTrainer(
            model=model,
            args=arguments,
            reward_funcs=checks.reward_functions(config, context),
            train_dataset=prompts,
            processing_class=tokenizer,
            peft_config=lora,
            callbacks=list(callbacks),
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigError(f"TRL cannot build this run: {' '.join(str(error).split())}") from error
    trainer.remove_callback(PrinterCallback)
    return trainer


def _watch(config: RunConfig) -> list[EarlyStop]:
    stop = config.stop
    return [] if stop is None else [EarlyStop(stop.act, stop.epsilon, stop.metric)]


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
