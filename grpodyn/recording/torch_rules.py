"""The rules of AdamW, Adam and SGD of `torch.optim`, whichever way (looped, foreach, fused, capturable) they step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grpodyn.recording.pieces import widened
from grpodyn.recording.step_rule import NO_STATE, Group, Part, dense


class AdamRule:
    """−lr · m̂ / (√v̂ + ε) − lr·λ·W_{t−1}, the decay only where it is decoupled.

    Reference: Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._decoupled = isinstance(optimizer, torch.optim.AdamW)
        self._counts: dict[int, float] = {}

    def refresh(self) -> None:
        """Read the step counts of all parameters at once: on an accelerator each read would wait for it."""
        counted = [
            (id(parameter), self._optimizer.state[parameter]["step"])
            for group in self._optimizer.param_groups
            for parameter in group["params"]
            if "step" in self._optimizer.state.get(parameter, {})
        ]
        if counted:
            values = torch.stack([torch.as_tensor(count, dtype=torch.float32) for _, count in counted]).tolist()
            self._counts = {key: value for (key, _), value in zip(counted, values, strict=True)}

    def obstacle(self, parameter: Tensor, group: Group) -> str | None:
        """Return why the step of a parameter is not known, or None."""
        return None if id(parameter) in self._counts else NO_STATE

    def steps(self, parts: Sequence[Part], groups: Sequence[Group]) -> list[Tensor]:
        """Return the steps of parts, in at least float32."""
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
        factors = [-r * root / c for r, root, c in zip(rates, roots, correction1, strict=True)]
        decays = [-rate * self._decay(group) for rate, group in zip(rates, groups, strict=True)]
        if any(decays):
            steps = list(torch._foreach_mul(widened([part.previous for part in parts]), decays))
            torch._foreach_addcdiv_(steps, m, denominator, factors)
            return steps
        steps = list(torch._foreach_div(m, denominator))
        torch._foreach_mul_(steps, factors)
        return steps

    def _decay(self, group: Group) -> float:
        # Adam's own decay enters the gradient, so its state holds it already. Older AdamW has no option to say so.
        return float(group["weight_decay"]) if group.get("decoupled_weight_decay", self._decoupled) else 0.0


class SGDRule:
    """−lr · d, with d the gradient (plus decay), the momentum buffer, or Nesterov's look-ahead.

    Reference: Sutskever et al. 2013, in the form of torch.optim.SGD.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def refresh(self) -> None:
        """Nothing is counted."""

    def obstacle(self, parameter: Tensor, group: Group) -> str | None:
        """Return why the step of a parameter is not known, or None. Plain SGD keeps no state."""
        missing = group["momentum"] and self._optimizer.state[parameter].get("momentum_buffer") is None
        return NO_STATE if missing else None

    def steps(self, parts: Sequence[Part], groups: Sequence[Group]) -> list[Tensor]:
        """Return the steps of parts, in at least float32."""
        return [self._step(part, group) for part, group in zip(parts, groups, strict=True)]

    def _step(self, part: Part, group: Group) -> Tensor:
        rate, momentum = float(group["lr"]), float(group["momentum"])
        buffer = self._optimizer.state[part.parameter]["momentum_buffer"] if momentum else None
        if buffer is not None and not group["nesterov"]:
            return -rate * widened([part.select(buffer)])[0]
        direction = float(group["weight_decay"]) * widened([part.previous])[0]
        if part.parameter.grad is not None:
            gradient = widened([part.select(dense(part.parameter.grad.detach()))])[0]
            direction = direction - gradient if group["maximize"] else direction + gradient
        if buffer is not None:
            direction = direction + momentum * widened([part.select(buffer)])[0]
        return -rate * direction
