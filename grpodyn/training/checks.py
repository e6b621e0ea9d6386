"""What of a run can be checked before its model is loaded: rewards, columns, answers, and the length of prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import datasets

from grpodyn import rewards
from grpodyn.config.batching import TRL_DEFAULTS
from grpodyn.config.run import RewardConfig, RunConfig, TaskConfig
from grpodyn.errors import ConfigError
from grpodyn.rewards import KNOWN, RewardContext, RewardFunction
from grpodyn.rewards.lint import Caution, lint
from grpodyn.training.conversations import written
from grpodyn.training.loading import load_architecture


def reward_functions(config: RunConfig, context: RewardContext | None = None) -> list[RewardFunction]:
    """Return the rewards of a run with their options.

    Args:
        config: of the run.
        context: what the run knows, where it is about to train; None to look at the config alone, on any machine.

    Raises:
        ConfigError, UnknownNameError: there is no such reward, its options are wrong, or this machine lacks what it
            needs to train.
    """
    for reward in config.rewards if context is not None else ():
        known = KNOWN.get(reward.name)
        if known is not None and known.ready is not None:
            known.ready()
    return [rewards.reward(reward.name, reward.options, context, reward.label) for reward in config.rewards]


def cautions(config: RunConfig, prompts: datasets.Dataset, tokenizer: Any) -> list[Caution]:
    """Return what of a run's rewards is likely to be regretted.

    Args:
        config: of the run.
        prompts: what completions are sampled for.
        tokenizer: of the model.

    Raises:
        ConfigError, UnknownNameError: as `reward_functions`; or prompts are conversations, and the model has no chat
            template, or one that refuses them.
    """
    longest = int(config.grpo.get("max_completion_length") or TRL_DEFAULTS["max_completion_length"])
    first = prompts[0]["prompt"]
    conversation = "" if isinstance(first, str) else written(first, tokenizer, config.grpo.get("chat_template_kwargs"))
    return lint(config.rewards, reward_functions(config), longest, tokenizer, conversation)


def check_columns(config: RunConfig, prompts: datasets.Dataset) -> None:
    """Check that the data has what the rewards read.

    Raises:
        ConfigError: a column is missing, a row has no answer in it, or one that its reward cannot read.
    """
    for reward in config.rewards:
        known = KNOWN.get(reward.name)
        if known is None:
            continue  # of a function of the user's nobody knows what it reads
        for column in known.columns:
            _check_present(config.task, reward, [column], prompts)
        if known.one_of:
            _check_present(config.task, reward, known.one_of, prompts)
        if known.readable is not None:
            _check_readable(reward, known.readable, prompts)


def fitting(config: RunConfig, prompts: datasets.Dataset, tokenizer: Any, what: str = "prompts") -> datasets.Dataset:
    """Return the prompts that are short enough.

    Args:
        config: the run config.
        prompts: what completions are sampled for.
        tokenizer: of the model.
        what: what errors call them.

    Raises:
        ConfigError: one is too long and must not be dropped, none is left, or the model has no chat template for
            prompts that are conversations.
    """
    most, why = _longest(config)
    if most is None:
        return prompts
    lengths = token_counts(prompts["prompt"][:], tokenizer, config.grpo.get("chat_template_kwargs"))
    too_long = [place for place, length in enumerate(lengths) if length > most]
    if not too_long:
        return prompts
    if config.task.too_long == "drop" and len(too_long) < len(lengths):
        return prompts.select(sorted(set(range(len(lengths))) - set(too_long)))
    raise ConfigError(
        f"{len(too_long)} of {len(lengths)} {what} have more than {most} tokens ({why}); the longest has "
        f"{max(lengths)}. Set task.too_long to drop to leave them out, or "
        f"{'raise it' if why == 'task.max_prompt_tokens' else 'lower grpo.max_completion_length'}"
    )


def _check_present(task: TaskConfig, reward: RewardConfig, one_of: Sequence[str], prompts: datasets.Dataset) -> None:
    found = [column for column in one_of if column in prompts.column_names]
    name = " or ".join(f"`{column}`" for column in one_of)
    if not found:
        where = "task.answer" if one_of[0] == "answer" else f"task.columns.{one_of[0]}"
        fix = f"set {where} to the column that holds it" if task.name is None else "take another reward or task"
        raise ConfigError(
            f"the reward {reward.name} reads {name}, which the data of {task.name or task.dataset!r} does not have "
            f"(it has: {', '.join(prompts.column_names)}); {fix}"
        )
    # A slice is a list: row by row, a column of 10,000 takes as long as a step.
    values = zip(*(prompts[column][:] for column in found), strict=True)
    empty = next((place for place, row in enumerate(values) if all(v is None or v in ("", []) for v in row)), None)
    if empty is not None:
        raise ConfigError(
            f"row {empty} of the data of {task.name or task.dataset!r} has nothing in {name}, which the reward "
            f"{reward.name} reads; take such rows out"
        )


def _check_readable(reward: RewardConfig, readable: Any, prompts: datasets.Dataset) -> None:
    for place, answer in enumerate(prompts["answer"][:]):
        try:
            readable(answer)
        except ConfigError as error:
            raise ConfigError(f"rewards: {reward.name}, row {place}: {error}") from error


def _longest(config: RunConfig) -> tuple[int | None, str]:
    """Return the most tokens that a prompt may have, and why."""
    wanted = config.task.max_prompt_tokens
    architecture = load_architecture(config.model)
    context = getattr(architecture.get_text_config(), "max_position_embeddings", None)
    if not isinstance(context, int):
        return wanted, "task.max_prompt_tokens"
    completion = int(config.grpo.get("max_completion_length") or TRL_DEFAULTS["max_completion_length"])
    if completion >= context:
        raise ConfigError(
            f"grpo.max_completion_length is {completion}, and the model's context has {context} tokens for prompt and "
            "completion together; lower it"
        )
    if wanted is not None and wanted <= context - completion:
        return wanted, "task.max_prompt_tokens"
    return context - completion, f"the model's context of {context} less grpo.max_completion_length {completion}"


def token_counts(prompts: Iterable[Any], tokenizer: Any, template: Mapping[str, Any] | None = None) -> list[int]:
    """Return the tokens of each prompt, a conversation as the chat template writes it.

    Args:
        prompts: texts or conversations.
        tokenizer: of the model.
        template: more arguments of the chat template.

    Raises:
        ConfigError: there is no chat template, or it refuses a prompt.
    """
    texts, conversations = [], []
    for prompt in prompts:
        if isinstance(prompt, str):
            texts.append(prompt)
        else:
            conversations.append(written(prompt, tokenizer, template))
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]] if texts else []
    if conversations:
        # The template has written the special tokens already.
        lengths += [len(ids) for ids in tokenizer(conversations, add_special_tokens=False)["input_ids"]]
    return lengths
