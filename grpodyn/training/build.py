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

from grpodyn.config.batching import batch_plan, planned_steps, world_size
from grpodyn.config.run import RunConfig
from grpodyn.config.task import TaskConfig
from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import end_tokens
from grpodyn.evaluation.retention import Retention
from grpodyn.recording.recorder import Recorder
from grpodyn.rewards import RewardContext
from grpodyn.tasks import Examples
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import MANIFEST
from grpodyn.training import checks, data, loading
from grpodyn.training.ahead import check_later_stages
from grpodyn.training.arguments import grpo_arguments, lora_arguments
from grpodyn.training.checkpoints import FOLDER
from grpodyn.training.early_stop import EarlyStop
from grpodyn.training.legs import Leg, keep_tuned
from grpodyn.training.retention import retention
from grpodyn.training.sampled import SampledTest, sampled_test
from grpodyn.training.sft import assemble_sft, sft_arguments, sft_examples, sft_steps
from grpodyn.training.templates import check_templates

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
    sampled: SampledTest | None = None
    """The held-out prompts that are sampled, in place of `held_out`."""


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
    held_out = _held_out(config)
    checks.check_columns(config, prompts)
    tokenizer = loading.load_tokenizer(config.model)
    prompts = checks.fitting(config, prompts, tokenizer)
    _caution(config, prompts, tokenizer)
    sampled = sampled_test(config, tokenizer)
    beside = retention(config, tokenizer, prompts, held_out)
    model = loading.load_model(config.model)
    recorder = _recorder(config, config.task, run_dir, append)
    callbacks = [*before_recorder, *_watch(config), recorder]
    try:
        trainer = assemble(config, arguments, model, tokenizer, prompts, lora, callbacks)
    except ConfigError:
        _remove_if_empty(run_dir / FOLDER, run_dir)
        raise
    return Training(trainer, recorder, held_out, beside, sampled)


def build_leg(
    config: RunConfig, leg: Leg, run_dir: Path, done: int, *, append: bool, before_recorder: Sequence[Any] = ()
) -> Training:
    """Return the trainer for one stage of a run.

    Args:
        config: the run config.
        leg: the stage.
        run_dir: where the recorder writes and checkpoints go.
        done: steps of the run done before, those of the stage among them.
        append: whether the run in `run_dir` goes on, also when it starts over from step 0.
        before_recorder: callbacks that ask for checkpoints or for the end: the recorder must see what they asked for.

    Raises:
        ConfigError, UnknownNameError: the config does not describe a stage that can start.
    """
    return (_build_sft if leg.kind == "sft" else _build_grpo)(config, leg, run_dir, done, append, before_recorder)


def _build_grpo(
    config: RunConfig, leg: Leg, run_dir: Path, done: int, append: bool, before_recorder: Sequence[Any]
) -> Training:
    plan = batch_plan(config.grpo, world_size())
    staged = config.model_copy(update={"task": leg.task})
    arguments = grpo_arguments(staged, run_dir / FOLDER)
    checks.reward_functions(config)
    prompts, held_out = data.train_prompts(leg.task), _held_out(config)
    checks.check_columns(staged, prompts)
    tokenizer = loading.load_tokenizer(config.model)
    prompts = checks.fitting(staged, prompts, tokenizer)
    check_later_stages(config, leg, tokenizer)
    if not done:
        _caution(config, prompts, tokenizer)
    if config.sft is not None:
        check_templates(config, tokenizer)
    if leg.in_curriculum and config.curriculum is not None:
        steps = config.curriculum.most_steps
    else:
        steps = planned_steps(config.grpo, plan, len(prompts))
    arguments.max_steps = leg.start + steps
    if leg.start:
        # A trainer counts its own data from the first step of the run, which had other data: it begins anew here, and
        # where a stage is taken up again, in another order.
        arguments.ignore_data_skip = True
        prompts = prompts.shuffle(seed=config.seed + done)
    source = config.model
    if leg.after_sft is not None and config.lora is None:
        # Loaded from there, so that the KL term's reference is the tuned model too.
        tuned = keep_tuned(run_dir, run_dir / FOLDER / f"checkpoint-{leg.after_sft}")
        source = config.model.model_copy(update={"path": str(tuned), "revision": None})
        arguments.model_init_kwargs = None
    sampled = sampled_test(config, tokenizer)
    beside = retention(config, tokenizer, prompts, held_out)
    recorder = _recorder(config, leg.task, run_dir, append, tuned=leg.after_sft is not None)
    callbacks = [*before_recorder, *_watch(config), recorder]
    trainer = assemble(
        staged, arguments, loading.load_model(source), tokenizer, prompts, lora_arguments(config), callbacks
    )
    if leg.after_sft is not None:
        _begin_anew(trainer, leg.after_sft, fresh=done == leg.after_sft)
    return Training(trainer, recorder, held_out, beside, sampled)


def _build_sft(
    config: RunConfig, leg: Leg, run_dir: Path, done: int, append: bool, before_recorder: Sequence[Any]
) -> Training:
    # What is wrong with the stages after it is found now, not after hours.
    batch_plan(config.grpo, world_size())
    grpo_arguments(config, run_dir / FOLDER)
    checks.reward_functions(config)
    arguments, lora = sft_arguments(config, run_dir / FOLDER), lora_arguments(config)
    examples, held_out = sft_examples(leg.task), _held_out(config)
    tokenizer = loading.load_tokenizer(config.model)
    check_templates(config, tokenizer)
    check_later_stages(config, leg, tokenizer)
    if not done:
        _caution(config, data.train_prompts(config.task), tokenizer)
    sampled = sampled_test(config, tokenizer)
    beside = retention(config, tokenizer, examples, held_out)
    recorder = _recorder(config, leg.task, run_dir, append)
    arguments.max_steps = sft_steps(arguments, len(examples))
    model = loading.load_model(config.model)
    try:
        trainer = assemble_sft(arguments, model, tokenizer, examples, lora, [*before_recorder, recorder])
    except ConfigError:
        _remove_if_empty(run_dir / FOLDER, run_dir)
        raise
    return Training(trainer, recorder, held_out, beside, sampled)


def _caution(config: RunConfig, prompts: Any, tokenizer: Any) -> None:
    for caution in checks.cautions(config, prompts, tokenizer):
        logger.warning("caution: %s", caution)


def _begin_anew(trainer: Any, offset: int, fresh: bool) -> None:
    """Give a trainer that goes on from another one's checkpoint its own schedule, and its own optimizer if fresh."""
    create = trainer.create_scheduler

    def create_for_the_rest(num_training_steps: int, optimizer: Any = None) -> Any:
        return create(num_training_steps - offset, optimizer)

    trainer.create_scheduler = create_for_the_rest
    if fresh:
        # What supervised fine-tuning learned of the size of gradients says nothing about those of GRPO.
        trainer._load_optimizer_and_scheduler = lambda checkpoint: None


def _held_out(config: RunConfig) -> Examples | None:
    if config.evaluate is None or not config.evaluate.prompts or config.evaluate.samples is not None:
        return None
    return data.held_out(config.task, config.evaluate.split, config.evaluate.prompts)


def _recorder(config: RunConfig, task: TaskConfig, run_dir: Path, append: bool, *, tuned: bool = False) -> Recorder:
    manifest = {"config": config.to_record(), "dataset": data.describe(task)}
    if tuned and (run_dir / MANIFEST).is_file():
        # What is loaded is the run's own copy of the tuned model; what the run trains is the model that it began with.
        before = Manifest.read(run_dir).model
        manifest["model"] = {key: before[key] for key in ("name", "revision") if key in before}
    return Recorder(run_dir, config.record, save_model=True, append=append, manifest=manifest)


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
