"""Builds what is measured beside the task from a run config; everything that can be wrong with it is found here."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from grpodyn.config.batching import TRL_DEFAULTS
from grpodyn.config.run import EvaluateConfig, RunConfig
from grpodyn.config.stages import StageConfig
from grpodyn.errors import ConfigError
from grpodyn.evaluation.retention import Retention, Stage
from grpodyn.evaluation.text import read_text
from grpodyn.tasks import Examples
from grpodyn.training import data


def retention(config: RunConfig, tokenizer: Any, prompts: Dataset, held_out: Examples | None) -> Retention | None:
    """Return what a run measures beside its task, or None if that is nothing.

    Args:
        config: the run config.
        tokenizer: of the model.
        prompts: what is trained on.
        held_out: what accuracy is measured on; drift is measured on the first of these prompts if there are any.

    Raises:
        ConfigError, UnknownNameError: a text, a stage or the prompts are missing, or not of the kind that is needed.
    """
    evaluate = config.evaluate
    tested = [] if evaluate is None else _tested(config, evaluate)
    if evaluate is None or not (evaluate.texts or evaluate.kl or tested):
        return None
    stages = [Stage(stage.name, data.held_out(stage.task, stage.split, stage.prompts)) for stage in tested]
    longest = int(config.grpo.get("max_completion_length", TRL_DEFAULTS["max_completion_length"]))
    return Retention(
        tokenizer,
        texts=[read_text(source) for source in evaluate.texts],
        window=evaluate.window,
        most_windows=evaluate.text_windows,
        stages=stages,
        drift_prompts=_drift_prompts(prompts, held_out, evaluate.kl_prompts) if evaluate.kl else (),
        max_new_tokens=longest,
        batch_size=evaluate.batch_size,
    )


def _tested(config: RunConfig, evaluate: EvaluateConfig) -> list[StageConfig]:
    """Return what is tested again: what is asked for, and every stage of a curriculum."""
    own = [] if config.curriculum is None else config.curriculum.stages
    return [*evaluate.stages, *(StageConfig(name=one.name, task=one.task, split=evaluate.split) for one in own)]


def _drift_prompts(prompts: Dataset, held_out: Examples | None, count: int) -> tuple[str, ...]:
    if held_out is not None:
        return held_out.head(count).prompts
    chosen = prompts.select(range(min(count, len(prompts))))["prompt"]
    wrong = next((prompt for prompt in chosen if not isinstance(prompt, str)), None)
    if wrong is not None:
        raise ConfigError(
            f"evaluate.kl needs prompts that are text, found {type(wrong).__name__}; set evaluate.kl to false"
        )
    return tuple(chosen)
