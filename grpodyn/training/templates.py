"""Are prompts put the same way in every stage?

A model that was tuned on conversations and is then rewarded on bare text is asked to do something new, and what it
loses then is not what it forgot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpodyn.config.run import RunConfig
from grpodyn.config.task import TaskConfig
from grpodyn.errors import ConfigError
from grpodyn.tasks.presented import PLACE, Presented, present
from grpodyn.training import data
from grpodyn.training.conversations import written

STAND_IN = "…the prompt…"
"""Stands for what differs from prompt to prompt."""


def rendered(task: TaskConfig, tokenizer: Any) -> str:
    """Return how a task puts a prompt, with `STAND_IN` for the prompt itself, as the model reads it.

    Raises:
        ConfigError: a conversation, and the tokenizer has no chat template, or one that refuses it.
        UnknownNameError: there is no such task.
    """
    made = data.task_of(task)
    # What wraps a task's prompts is the template that is used: a system's message leaves out the task's own.
    template = made.template if isinstance(made, Presented) else PLACE if made is not None else task.template or PLACE
    text = present(STAND_IN, template)
    if task.chat:
        before = [] if task.system is None else [{"role": "system", "content": task.system}]
        return written([*before, {"role": "user", "content": text}], tokenizer)
    if made is not None:
        return text
    first = data.train_prompts(task)[0]["prompt"]
    if isinstance(first, str):
        return text
    # A data set of conversations: all but the last message are taken to be the same for every prompt.
    *before, last = first
    return written([*before, {**last, "content": STAND_IN}], tokenizer)


def check_templates(config: RunConfig, tokenizer: Any) -> None:
    """Check that supervised fine-tuning and every stage of GRPO put their prompts the same way.

    Raises:
        ConfigError: two of them do not; both ways are shown.
    """
    wanted = rendered(config.task, tokenizer)
    for where, task in _others(config).items():
        found = rendered(task, tokenizer)
        if found != wanted:
            raise ConfigError(
                f"task and {where} put their prompts in different ways, so what one learns the other does not see. "
                f"task:\n{_indented(wanted)}\n{where}:\n{_indented(found)}\nSet `template`, `chat` and `system` alike "
                "in both, or name one task in both"
            )


def _others(config: RunConfig) -> Mapping[str, TaskConfig]:
    found: dict[str, TaskConfig] = {}
    if config.sft is not None and config.sft.task is not None:
        found["sft.task"] = config.sft.task
    if config.curriculum is not None:
        found |= {f"curriculum.stages: {stage.name}": stage.task for stage in config.curriculum.stages}
    return found


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
