"""What a run will cost, estimated without training: steps, prompts, tokens, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpodyn.config.batching import batch_plan, planned_steps
from grpodyn.config.launch import Launch, this_process
from grpodyn.config.run import RunConfig
from grpodyn.rewards.lint import Caution
from grpodyn.training import checks
from grpodyn.training.arguments import grpo_arguments
from grpodyn.training.checkpoints import FOLDER
from grpodyn.training.data import train_prompts
from grpodyn.training.loading import load_architecture, load_tokenizer
from grpodyn.training.memory import Memory, Shape, memory, sizes

PROMPTS_MEASURED = 500
"""Prompts that are tokenized to estimate the length of all."""


@dataclass(frozen=True)
class RunPlan:
    """Estimates of a whole run, over all ranks except memory (one rank's)."""

    steps: int
    epochs: float
    training_prompts: int
    prompts_per_step: float
    group_size: int
    completions: int
    """Completions sampled in the whole run."""
    prompt_tokens: int
    """Tokens of the prompts of those completions, from the mean length of some prompts."""
    completion_tokens_at_most: int
    parameters: int
    trainable_parameters: int
    processes: int
    """Ranks that train together."""
    sharded: bool
    """Whether they share the model."""
    memory: Memory
    cautions: tuple[Caution, ...] = ()
    """What of the rewards is likely to be regretted."""


@dataclass(frozen=True)
class Prompts:
    """What a plan needs to know of the prompts."""

    count: int
    mean_tokens: float
    most_tokens: int
    """Of those that were measured."""


def plan_run(config: RunConfig, launch: Launch | None = None) -> RunPlan:
    """Return what a run of `config` will take.

    Args:
        config: the run config.
        launch: how it will be started; None as this process was.

    Raises:
        ConfigError, UnknownNameError: the model, the dataset or a setting is wrong.
    """
    launch = launch or this_process()
    # What a run would refuse is refused here too: nobody waits for a plan that cannot be followed.
    batch_plan(config.grpo, launch.processes)
    grpo_arguments(config, Path(FOLDER))
    checks.reward_functions(config)
    data = train_prompts(config.task)
    checks.check_columns(config, data)
    architecture = load_architecture(config.model)
    tokenizer = load_tokenizer(config.model)
    data = checks.fitting(config, data, tokenizer)
    lengths = checks.token_counts(data["prompt"][:PROMPTS_MEASURED], tokenizer)
    prompts = Prompts(len(data), sum(lengths) / len(lengths), max(lengths))
    cautions = tuple(checks.cautions(config, tokenizer))
    return replace(estimate(config, architecture, prompts, launch), cautions=cautions)


def estimate(config: RunConfig, architecture: Any, prompts: Prompts, launch: Launch) -> RunPlan:
    """Return what a run takes of which the architecture and the prompts are known; nothing is loaded.

    Raises:
        ConfigError: a setting is wrong.
    """
    batches = batch_plan(config.grpo, launch.processes)
    arguments = grpo_arguments(config, Path(FOLDER))
    steps = planned_steps(config.grpo, batches, prompts.count)
    completions = math.ceil(steps / batches.steps_per_generation) * batches.completions_per_generation
    longest = int(arguments.max_completion_length)
    weights, trainable = sizes(config, architecture)
    shape = Shape(
        rows=int(arguments.per_device_train_batch_size),
        sampled=batches.completions_per_generation // launch.processes,
        prompt_tokens=prompts.most_tokens,
        completion_tokens=longest,
    )
    return RunPlan(
        steps=steps,
        epochs=round(steps / max(batches.steps_per_epoch(prompts.count), 1), 2),
        training_prompts=prompts.count,
        prompts_per_step=batches.completions_per_step / batches.group_size,
        group_size=batches.group_size,
        completions=completions,
        prompt_tokens=round(completions * prompts.mean_tokens),
        completion_tokens_at_most=completions * longest,
        parameters=weights.count,
        trainable_parameters=trainable.count,
        processes=launch.processes,
        sharded=launch.sharded,
        memory=memory(config, architecture, arguments, shape, launch),
    )
