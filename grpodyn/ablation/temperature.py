"""The arm that can only cool: all weights frozen, one trained scalar that divides the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.errors import ConfigError

NAME = "log_inverse_temperature"
RULE = 0.02
"""Its learning rate before tuning: Adam moves the scalar by about this much a step."""


def learn_temperature(model: Any) -> Any:
    """Freeze a model in place and give it one trainable scalar s: logits become e^s · logits, s = 0 at the start.

    A task that this arm solves can be solved by a temperature; what other arms gain over it is not sharpening.

    Args:
        model: a causal language model of transformers, whose logits are a linear function of the last hidden state.

    Returns:
        The same model.

    Raises:
        ConfigError: the head has a bias, or caps its logits: scaling its input is then no temperature.
    """
    head = model.get_output_embeddings()
    capped = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    if getattr(head, "bias", None) is not None or capped is not None:
        raise ConfigError(
            f"the head of {type(model).__name__} has a bias or caps its logits, so one scalar before it is no "
            "temperature; leave out the arm temperature-only"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.register_parameter(NAME, nn.Parameter(torch.zeros((), dtype=torch.float32, device=head.weight.device)))

    # Before the head, not after it: TRL multiplies hidden states by the head's weight without calling the head. And
    # looked up at each call: a trainer may move the parameter to another device.
    def scaled(_: nn.Module, __: Any, output: Any) -> Any:
        hidden: Tensor = output.last_hidden_state
        output.last_hidden_state = hidden * getattr(model, NAME).exp().to(hidden.dtype)
        return output

    model.base_model.register_forward_hook(scaled)
    return model
