"""Conversations as the model reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from grpodyn.errors import ConfigError


def written(messages: Sequence[Mapping[str, Any]], tokenizer: Any, template: Mapping[str, Any] | None = None) -> str:
    """Return a conversation as the tokenizer's chat template writes it, up to where the answer begins.

    Args:
        messages: of the conversation.
        tokenizer: of the model.
        template: more arguments of the chat template.

    Raises:
        ConfigError: there is no chat template, or it refuses the messages.
    """
    if tokenizer.chat_template is None:
        raise ConfigError(
            "the prompts are conversations, and the model's tokenizer has no chat template; set task.chat to "
            "false, or take a model that was trained on conversations"
        )
    try:
        more = {"tokenize": False, "add_generation_prompt": True, **(template or {})}
        return str(tokenizer.apply_chat_template(list(messages), **more))
    except (TemplateError, ValueError) as error:
        roles = ", ".join(str(message.get("role")) for message in messages)
        raise ConfigError(
            f"the model's chat template refuses a prompt of the roles {roles}: {error}; if it takes no system's "
            "message, leave task.system out and say it in task.template"
        ) from error
