"""First and second moments of the gradients over a window of steps, from a fixed sample of each tensor's elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from grpodyn.naming.shards import Share, local

SAMPLED = 1024
"""Elements of each tensor, all of a smaller one: means over so many are within some 5 % of those over all."""
_SEED = 20240502
"""Which elements is fixed, so that two runs of one model compare."""


class GradientMoments:
    """Adds up what is needed to tell the signal in a gradient from its noise. Holds 16 kB a tensor at most.

    Args:
        parameters: whose gradients are read, each between the clipping and the optimizer's step.
        shares: what this rank holds of those that are split among ranks, one for each parameter.
    """

    def __init__(self, parameters: Sequence[Tensor], shares: Sequence[Share | None] | None = None) -> None:
        self._parameters = list(parameters)
        generator = torch.Generator().manual_seed(_SEED)
        here = [local(parameter) for parameter in self._parameters]
        self._sizes = [values.numel() for values in here]
        samples = [
            _sample(values, generator, share) for values, share in zip(here, shares or [None] * len(here), strict=True)
        ]
        self._taken = [taken for taken, _ in samples]
        self._scales = [scale for _, scale in samples]
        self._sums = [torch.zeros(taken.numel(), dtype=torch.float64, device=taken.device) for taken in self._taken]
        self._squares = [torch.zeros((), dtype=torch.float64, device=taken.device) for taken in self._taken]
        self._steps = [0] * len(self._parameters)

    def add(self) -> None:
        """Add the gradients that are there now. A tensor without one has a window of fewer steps."""
        for i, parameter in enumerate(self._parameters):
            gradient = None if parameter.grad is None else local(parameter.grad)
            if gradient is None or gradient.layout != torch.strided or gradient.numel() != self._sizes[i]:
                continue
            if not self._sizes[i]:
                # Another rank holds all of it.
                continue
            values = torch.take(gradient.detach(), self._taken[i]).double()
            self._sums[i] += values
            self._squares[i] += torch.dot(values, values)
            self._steps[i] += 1

    def read(self) -> tuple[Tensor, Tensor]:
        """Return unbiased estimates of ‖E g‖² and E‖g − E g‖² over the window, and begin the next one.

        With m the mean of T gradients and s the mean of their squared norms: ‖E g‖² = (T‖m‖² − s)/(T − 1), which may
        come out below 0, and E‖g − E g‖² = T(s − ‖m‖²)/(T − 1).

        Returns:
            Both float64 on the CPU, shape (tensors,); nan of a window of fewer than two steps, which goes on.

        Reference: McCandlish et al. 2018 (arXiv 1812.06162), appendix A.1.
        """
        signal, noise = (torch.full((len(self._parameters),), torch.nan, dtype=torch.float64) for _ in range(2))
        ended = [i for i, steps in enumerate(self._steps) if steps > 1]
        pairs = [torch.stack([torch.dot(self._sums[i], self._sums[i]), self._squares[i]]) for i in ended]
        for i, (of_sum, squares) in zip(ended, _on_cpu(pairs), strict=True):
            steps = self._steps[i]
            mean, second = of_sum / steps**2, squares / steps
            # The sample stands for all elements of the tensor.
            scale = self._scales[i] / (steps - 1)
            signal[i] = scale * (steps * mean - second)
            noise[i] = scale * steps * (second - mean)
            self._sums[i].zero_()
            self._squares[i].zero_()
            self._steps[i] = 0
        return signal, noise


def _sample(here: Tensor, generator: torch.Generator, share: Share | None) -> tuple[Tensor, float]:
    """Return which elements are taken of what this rank holds, and how many elements of the whole each stands for."""
    size = here.numel() if share is None else prod(share.shape)
    if size <= SAMPLED:
        return torch.arange(here.numel(), device=here.device), 1.0
    # With replacement: a permutation of a large tensor's elements would cost more than everything that follows.
    taken = torch.randint(size, (SAMPLED,), generator=generator)
    if share is not None:
        if share.box is None:
            # Where the part lies is not known: it is sampled by itself.
            return torch.randint(max(1, here.numel()), (SAMPLED,), generator=generator), here.numel() / SAMPLED
        # The same elements of the whole as on one process, whichever rank holds them.
        _, taken = share.box.inside(taken)
    return taken.to(here.device), size / SAMPLED


def _on_cpu(pairs: list[Tensor]) -> list[list[float]]:
    """Return the values of pairs on any devices, moved together."""
    if len({pair.device for pair in pairs}) == 1:
        moved: list[list[float]] = torch.stack(pairs).tolist()
        return moved
    return [pair.tolist() for pair in pairs]
