"""The step an optimizer meant to take, before it was rounded to the storage dtype, from the optimizer's own state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grpodyn.recording.lion_rule import lion_rule
from grpodyn.recording.step_rule import Part, Rule
from grpodyn.recording.torch_rules import AdamRule, SGDRule


class IntendedSteps:
    """Reads intended steps from the state of AdamW, Adam and SGD of `torch.optim`, and of Lion; of nothing else.

    Call it after the optimizer's step and before the scheduler's, so that the learning rate is that of the step.

    Args:
        optimizer: the optimizer, wrapped by accelerate or not.
    """

    def __init__(self, optimizer: Any) -> None:
        self._wrapper = optimizer
        self._optimizer = _unwrapped(optimizer)
        self._rule = _rule_of(self._optimizer)
        self.unavailable = self._rule if isinstance(self._rule, str) else None
        """Why no intended step can be told, or None."""
        self.unknown: dict[int, str] = {}
        """Why the step of some parameters could not be told when it was last asked for, by their id."""

    @property
    def method(self) -> str:
        """How intended steps are known, for the manifest."""
        if self.unavailable is not None:
            return f"not measured: {self.unavailable}"
        return f"from the state of {_name(self._optimizer)}"

    def reads(self, optimizer: Any) -> bool:
        """Return whether this is the optimizer whose state is read."""
        return _unwrapped(optimizer) is self._optimizer

    def trained(self) -> list[Tensor]:
        """Return the parameters that the next step moves: those that have a gradient."""
        return [parameter for group in self._groups() for parameter in group["params"] if parameter.grad is not None]

    @property
    def was_skipped(self) -> bool:
        """Whether the optimizer left the weights alone this time (overflow under mixed precision)."""
        return bool(getattr(self._wrapper, "step_was_skipped", False))

    def refresh(self) -> None:
        """Read once what all parameters' steps need. Call it before `steps`, after each step of the optimizer."""
        self.unknown = {}
        if not isinstance(self._rule, str):
            self._rule.refresh()

    def steps(self, parts: Sequence[Part]) -> list[Tensor]:
        """Return the intended step of each part, in at least float32.

        A parameter without a gradient is left alone by the optimizer: its intended step is zero. That of one whose
        step its state does not tell is nan, with the reason in `unknown`.

        Raises:
            ValueError: the optimizer is not one whose state tells the step.
        """
        if isinstance(self._rule, str):
            raise ValueError(self._rule)
        group_of = {id(parameter): group for group in self._groups() for parameter in group["params"]}
        result: list[Tensor | None] = [None] * len(parts)
        moving = []
        for i, part in enumerate(parts):
            group = group_of.get(id(part.parameter))
            if group is None or part.parameter.grad is None or self.was_skipped:
                result[i] = torch.zeros_like(part.previous, dtype=_wide_dtype(part.previous))
            elif (why := self._rule.obstacle(part.parameter, group)) is not None:
                self.unknown[id(part.parameter)] = why
                result[i] = torch.full_like(part.previous, torch.nan, dtype=_wide_dtype(part.previous))
            else:
                moving.append((i, part, group))
        if moving:
            steps = self._rule.steps([part for _, part, _ in moving], [group for _, _, group in moving])
            for (i, _, _), step in zip(moving, steps, strict=True):
                result[i] = step
        return [step for step in result if step is not None]

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self._optimizer.param_groups
        return groups


def _unwrapped(optimizer: Any) -> Any:
    # accelerate's wrapper is itself a torch Optimizer; what it wraps holds the state under the same keys.
    inner = getattr(optimizer, "optimizer", None)
    return inner if isinstance(inner, torch.optim.Optimizer) else optimizer


def _rule_of(optimizer: Any) -> Rule | str:
    """Return how an optimizer steps, or why that is not known.

    A rule is for the exact classes that it was written from: a subclass, or another of the same name, may step
    differently.
    """
    if type(optimizer) in (torch.optim.AdamW, torch.optim.Adam):
        return AdamRule(optimizer)
    if type(optimizer) is torch.optim.SGD:
        return SGDRule(optimizer)
    rule = lion_rule(optimizer)
    known = "torch.optim.AdamW, Adam or SGD, or of Lion"
    return rule or f"the intended step is read from the state of {known}; this optimizer is {_name(optimizer)}"


def _name(optimizer: Any) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _wide_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
