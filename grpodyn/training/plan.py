"""What a run will cost, estimated without training: steps, prompts, tokens, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from grpodyn.training.legs import SFT, Leg, legs
from grpodyn.training.loading import load_architecture, load_tokenizer
from grpodyn.training.memory import Memory, Shape, memory, sizes
from grpodyn.training.sampled import sampled_test
from grpodyn.training.sft import sft_arguments, sft_examples, sft_steps
from grpodyn.training.templates import check_templates

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
    stages: tuple[StagePlan, ...] = ()
    """Of a run in stages each of them. Then `steps` counts all of them, at most; prompts, completions and their tokens
    are sums over those of GRPO; `memory` is that of the stage that holds the most."""


@dataclass(frozen=True)
class StagePlan:
    """Estimates of one stage of a run, over all ranks except memory (one rank's)."""

    name: str
    kind: str
    """`sft` or `grpo`."""
    steps: int
    steps_are_most: bool
    """Whether the stage may end sooner: one of a curriculum does when it is mastered or has stalled."""
    rows: int
    """Prompts that are trained on; of fine-tuning, prompts with their answers."""
    prompt_tokens: int
    """Of all prompts that are read in these steps, from the mean length of some."""
    completion_tokens: int
    """Of fine-tuning: of the answers that are learned, from the mean length of some. Of GRPO: at most that many are
    sampled."""
    memory: Memory


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
    planned = legs(config)
    sft = [sft_examples(leg.task) for leg in planned if leg.kind == "sft"]
    architecture = load_architecture(config.model)
    tokenizer = load_tokenizer(config.model)
    if sft:
        check_templates(config, tokenizer)
    sampled_test(config, tokenizer)
    cautions = tuple(checks.cautions(config, train_prompts(config.task), tokenizer))
    if not planned:
        prompts = _measured(config, tokenizer)
        return replace(estimate(config, architecture, prompts, launch), cautions=cautions)
    of_grpo = [
        (leg, estimate(staged, architecture, _measured(staged, tokenizer), launch))
        for leg in planned
        if leg.kind == "grpo"
        for staged in [_alone(config, leg)]
    ]
    stages = [_estimate_sft(config, architecture, rows, tokenizer, launch) for rows in sft]
    stages += [
        StagePlan(
            name=leg.name,
            kind=leg.kind,
            steps=plan.steps,
            steps_are_most=leg.in_curriculum,
            rows=plan.training_prompts,
            prompt_tokens=plan.prompt_tokens,
            completion_tokens=plan.completion_tokens_at_most,
            memory=plan.memory,
        )
        for leg, plan in of_grpo
    ]
    return replace(_together([plan for _, plan in of_grpo], stages), cautions=cautions)


def _alone(config: RunConfig, leg: Leg) -> RunConfig:
    """Return the config of a stage of GRPO as if it were a run."""
    grpo = config.grpo
    if leg.in_curriculum and config.curriculum is not None:
        grpo = {**grpo, "max_steps": config.curriculum.most_steps}
    return config.model_copy(update={"task": leg.task, "grpo": grpo})


def _measured(config: RunConfig, tokenizer: Any) -> Prompts:
    data = train_prompts(config.task)
    checks.check_columns(config, data)
    data = checks.fitting(config, data, tokenizer)
    template = config.grpo.get("chat_template_kwargs")
    lengths = checks.token_counts(data["prompt"][:PROMPTS_MEASURED], tokenizer, template)
    return Prompts(len(data), sum(lengths) / len(lengths), max(lengths))


def _estimate_sft(config: RunConfig, architecture: Any, rows: Any, tokenizer: Any, launch: Launch) -> StagePlan:
    arguments = sft_arguments(config, Path(FOLDER))
    some = rows[:PROMPTS_MEASURED]
    alone = checks.token_counts(some["prompt"], tokenizer)
    whole = checks.token_counts([p + c for p, c in zip(some["prompt"], some["completion"], strict=True)], tokenizer)
    # The end token is learned too; what is longer than TRL's limit is cut there.
    most = int(arguments.max_length or max(whole) + 1)
    read = [min(length + 1, most) for length in whole]
    learned = sum(max(0, length - prompt) for length, prompt in zip(read, alone, strict=True))
    steps = sft_steps(arguments, len(rows), launch.processes)
    batch = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * launch.processes
    shape = Shape(
        rows=int(arguments.per_device_train_batch_size), sampled=0, prompt_tokens=0, completion_tokens=max(read)
    )
    return StagePlan(
        name=SFT,
        kind="sft",
        steps=steps,
        steps_are_most=False,
        rows=len(rows),
        prompt_tokens=round(steps * batch * (sum(read) - learned) / len(read)),
        completion_tokens=round(steps * batch * learned / len(read)),
        memory=memory(config, architecture, arguments, shape, launch),
    )


def _together(plans: Sequence[RunPlan], stages: Sequence[StagePlan]) -> RunPlan:
    first = plans[0]
    # What is not known may be the most.
    largest = max((stage.memory for stage in stages), key=lambda one: math.inf if one.total is None else one.total)
    return replace(
        first,
        steps=sum(stage.steps for stage in stages),
        epochs=round(
            sum(plan.epochs * plan.training_prompts for plan in plans) / sum(p.training_prompts for p in plans), 2
        ),
        training_prompts=sum(plan.training_prompts for plan in plans),
        completions=sum(plan.completions for plan in plans),
        prompt_tokens=sum(plan.prompt_tokens for plan in plans),
        completion_tokens_at_most=sum(plan.completion_tokens_at_most for plan in plans),
        memory=largest,
        stages=tuple(stages),
    )


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
