"""The rule of Lion, as lion-pytorch and bitsandbytes step it. torch has none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grpodyn.recording.pieces import widened
from grpodyn.recording.step_rule import NO_STATE, Group, Part, dense

_OPTIONS = {"params", "param_names", "lr", "initial_lr", "betas", "weight_decay"}
"""Options that the rule accounts for: with any other (cautious updates, …) the optimizer takes other steps."""
_MOMENTUM = {"lion_pytorch": "exp_avg", "bitsandbytes": "state1"}
"""What each package calls the momentum in its state."""
_CLASSES = {"lion_pytorch": {"Lion"}, "bitsandbytes": {"Lion", "Lion8bit", "Lion32bit"}}
"""A paged optimizer's state may be anywhere: it is not read."""


class LionRule:
    """−lr · sign(β₁ m_{t−1} + (1 − β₁) g) − lr·λ·W_{t−1}.

    After the step the state holds m_t = β₂ m_{t−1} + (1 − β₂) g. The sign is that of β₁ m_t + (β₂ − β₁) g, which is β₂
    times the sum above: the momentum before the step need not be kept.

    Reference: Chen et al. 2023 (arXiv 2302.06675), algorithm 2.
    """

    def __init__(self, optimizer: Any, momentum: str) -> None:
        self._optimizer = optimizer
        self._momentum = momentum

    def refresh(self) -> None:
        """Nothing is counted."""

    def obstacle(self, parameter: Tensor, group: Group) -> str | None:
        """Return why the step of a parameter is not known, or None."""
        momentum = self._optimizer.state.get(parameter, {}).get(self._momentum)
        if momentum is None:
            return NO_STATE
        if momentum.dtype not in (torch.float32, torch.float64):
            kept = str(momentum.dtype).removeprefix("torch.")
            return f"its momentum is kept as {kept}, which does not tell the sign of Lion's update"
        if float(group["betas"][1]) == 0.0:
            return "with a second beta of 0 the momentum before the step is gone"
        return None

    def steps(self, parts: Sequence[Part], groups: Sequence[Group]) -> list[Tensor]:
        """Return the steps of parts, in at least float32."""
        return [self._step(part, group) for part, group in zip(parts, groups, strict=True)]

    def _step(self, part: Part, group: Group) -> Tensor:
        beta1, beta2 = (float(beta) for beta in group["betas"])
        rate, gradient = float(group["lr"]), part.parameter.grad
        update = beta1 * part.select(self._optimizer.state[part.parameter][self._momentum])
        if gradient is not None:
            update = update + (beta2 - beta1) * widened([part.select(dense(gradient.detach()))])[0]
        step = -rate * update.sign()
        decay = self._decay(group)
        return step - rate * decay * widened([part.previous])[0] if decay else step

    def _decay(self, group: Group) -> float:
        decay = float(group["weight_decay"])
        # lion-pytorch can state the decay for a learning rate of 1.
        return decay / float(self._optimizer._init_lr) if getattr(self._optimizer, "decoupled_wd", False) else decay


def lion_rule(optimizer: Any) -> LionRule | str | None:
    """Return the rule of an optimizer that is Lion; why it has none; None for any other optimizer."""
    kind = type(optimizer)
    package = kind.__module__.partition(".")[0]
    if kind.__name__ not in _CLASSES.get(package, ()):
        return None
    why = _other_rule(optimizer, package)
    return LionRule(optimizer, _MOMENTUM[package]) if why is None else why


def _other_rule(optimizer: Any, package: str) -> str | None:
    """Return why an optimizer of these packages does not step by the rule, or None."""
    name = f"{package}'s {type(optimizer).__name__}"
    known = _OPTIONS | ({"eps"} if package == "bitsandbytes" else set())
    others = sorted({str(option) for group in optimizer.param_groups for option in group} - known)
    if others:
        return f"{name} has options that the rule of Lion does not know: {', '.join(others)}"
    return _other_rule_of_bitsandbytes(optimizer, name) if package == "bitsandbytes" else None


def _other_rule_of_bitsandbytes(optimizer: Any, name: str) -> str | None:
    if any(float(group["weight_decay"]) for group in optimizer.param_groups):
        return f"where weight decay enters {name} depends on its version and on the device"
    if getattr(optimizer, "is_paged", False):
        return f"the state of {name} is paged: it may be anywhere"
    arguments = optimizer.args
    clipped = getattr(arguments, "percentile_clipping", 100) < 100
    if clipped or getattr(arguments, "max_unorm", 0.0) > 0.0 or getattr(arguments, "skip_zeros", False):
        return f"{name} clips, scales or skips parts of its updates"
    if getattr(optimizer.mng, "index2config", None):
        return f"{name} has options by parameter (GlobalOptimManager)"
    return None
