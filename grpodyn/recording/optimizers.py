"""The step an optimizer meant to take, before it was rounded to the storage dtype, from the optimizer's own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpodyn.recording.pieces import widened

Select = Callable[[Tensor], Tensor]
"""Picks some rows of any tensor shaped like the parameter."""


@dataclass(frozen=True)
class Part:
    """Some rows of one parameter: which, and what they were before the step."""

    parameter: Tensor
    select: Select
    previous: Tensor


class IntendedSteps:
    """Reads intended steps from the state of AdamW, Adam or SGD of `torch.optim`; of nothing else.

    Call it after the optimizer's step and before the scheduler's, so that the learning rate is that of the step.

    Args:
        optimizer: the optimizer, wrapped by accelerate or not.
    """

    def __init__(self, optimizer: Any) -> None:
        self._wrapper = optimizer
        self._optimizer = _unwrapped(optimizer)
        self.unavailable = _obstacle(self._optimizer)
        """Why no intended step can be told, or None."""
        self._counts: dict[int, float] = {}

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
        """Read the step counts of all parameters at once: on an accelerator each read would wait for it."""
        counted = [
            (id(parameter), self._optimizer.state[parameter]["step"])
            for group in self._groups()
            for parameter in group["params"]
            if "step" in self._optimizer.state.get(parameter, {})
        ]
        if counted:
            values = torch.stack([torch.as_tensor(count, dtype=torch.float32) for _, count in counted]).tolist()
            self._counts = {key: value for (key, _), value in zip(counted, values, strict=True)}

    def steps(self, parts: Sequence[Part]) -> list[Tensor]:
        """Return the intended step of each part, in at least float32.

        A parameter without a gradient is left alone by the optimizer: its intended step is zero. That of one with a
        gradient and no state is nan: something else moves it, if anything does.

        Raises:
            ValueError: the optimizer is not one whose state tells the step.
        """
        if self.unavailable is not None:
            raise ValueError(self.unavailable)
        group_of = {id(parameter): group for group in self._groups() for parameter in group["params"]}
        result: list[Tensor | None] = [None] * len(parts)
        moving = []
        for i, part in enumerate(parts):
            group = group_of.get(id(part.parameter))
            if group is None or part.parameter.grad is None or self.was_skipped:
                result[i] = torch.zeros_like(part.previous, dtype=_wide_dtype(part.previous))
            elif not self._has_stepped(part.parameter):
                result[i] = torch.full_like(part.previous, torch.nan, dtype=_wide_dtype(part.previous))
            else:
                moving.append((i, part, group))
        if moving:
            rule = self._sgd if isinstance(self._optimizer, torch.optim.SGD) else self._adam
            steps = rule([part for _, part, _ in moving], [group for _, _, group in moving])
            for (i, _, _), step in zip(moving, steps, strict=True):
                result[i] = step
        return [step for step in result if step is not None]

    def _has_stepped(self, parameter: Tensor) -> bool:
        # Plain SGD keeps no state.
        return isinstance(self._optimizer, torch.optim.SGD) or id(parameter) in self._counts

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self._optimizer.param_groups
        return groups

    def _adam(self, parts: list[Part], groups: list[dict[str, Any]]) -> list[Tensor]:
        """Return −lr · m̂ / (√v̂ + ε) − lr·λ·W_{t−1} (the decay only where it is decoupled).

        Reference: Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2.
        """
        states = [self._optimizer.state[part.parameter] for part in parts]
        second = ["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq" for group in groups]
        m = widened([part.select(state["exp_avg"]) for part, state in zip(parts, states, strict=True)])
        v = widened([part.select(state[key]) for part, state, key in zip(parts, states, second, strict=True)])
        counts = [self._counts[id(part.parameter)] for part in parts]
        rates = [float(group["lr"]) for group in groups]
        correction1, correction2 = (
            [1 - float(group["betas"][k]) ** count for group, count in zip(groups, counts, strict=True)] for k in (0, 1)
        )
        # √v̂ + ε = (√v + ε√c) / √c: the division moves into the factor, which saves a pass.
        roots = [c**0.5 for c in correction2]
        denominator = list(torch._foreach_sqrt(v))
        torch._foreach_add_(
            denominator, [float(group["eps"]) * root for group, root in zip(groups, roots, strict=True)]
        )
        steps = list(torch._foreach_div(m, denominator))
        torch._foreach_mul_(steps, [-r * root / c for r, root, c in zip(rates, roots, correction1, strict=True)])
        decays = [-rate * _decoupled_decay(group) for rate, group in zip(rates, groups, strict=True)]
        if any(decays):
            torch._foreach_add_(steps, torch._foreach_mul(widened([part.previous for part in parts]), decays))
        return steps

    def _sgd(self, parts: list[Part], groups: list[dict[str, Any]]) -> list[Tensor]:
        """Return −lr · d, with d the gradient (plus decay), the momentum buffer, or Nesterov's look-ahead.

        Reference: Sutskever et al. 2013, in the form of torch.optim.SGD.
        """
        return [self._sgd_step(part, group) for part, group in zip(parts, groups, strict=True)]

    def _sgd_step(self, part: Part, group: dict[str, Any]) -> Tensor:
        rate, momentum = float(group["lr"]), float(group["momentum"])
        buffer = self._optimizer.state[part.parameter].get("momentum_buffer") if momentum else None
        if buffer is not None and not group["nesterov"]:
            return -rate * widened([part.select(buffer)])[0]
        direction = float(group["weight_decay"]) * widened([part.previous])[0]
        if part.parameter.grad is not None:
            gradient = widened([part.select(_dense(part.parameter.grad.detach()))])[0]
            direction = direction - gradient if group["maximize"] else direction + gradient
        if buffer is not None:
            direction = direction + momentum * widened([part.select(buffer)])[0]
        return -rate * direction


def _dense(gradient: Tensor) -> Tensor:
    return gradient if gradient.layout == torch.strided else gradient.to_dense()


def _unwrapped(optimizer: Any) -> Any:
    # accelerate's wrapper is itself a torch Optimizer; what it wraps holds the state under the same keys.
    inner = getattr(optimizer, "optimizer", None)
    return inner if isinstance(inner, torch.optim.Optimizer) else optimizer


def _obstacle(optimizer: Any) -> str | None:
    # Exact types: a subclass may step differently.
    if type(optimizer) in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
        return None
    name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    return f"the intended step is read from the state of torch.optim.AdamW, Adam or SGD; this optimizer is {name}"


def _decoupled_decay(group: dict[str, Any]) -> float:
    # Adam's own decay enters the gradient, so its state holds it already.
    return float(group["weight_decay"]) if group.get("decoupled_weight_decay", False) else 0.0


def _wide_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
