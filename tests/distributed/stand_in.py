"""Does with parameters what DeepSpeed ZeRO-3 does with them, as its sources have it: DeepSpeed itself is not here.

In its `partition_parameters.py` a parameter is empty but for `ds_tensor`, this rank's range of the flattened and padded
tensor; `GatheredParameters` makes some whole on every rank at once, and empties them again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import TrainerControl

from grpodyn import Recorder


@contextmanager
def gathered(params: Sequence[Any], modifier_rank: int | None = None) -> Iterator[None]:
    """Stand in for `deepspeed.zero.GatheredParameters`: every rank enters it with the same parameters."""
    assert modifier_rank is None
    for parameter in params:
        parts = [torch.empty_like(parameter.ds_tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, parameter.ds_tensor)
        parameter.data = torch.cat(parts)[: parameter.ds_numel].view(parameter.ds_shape)
    yield
    for parameter in params:
        parameter.data = torch.empty(0, dtype=parameter.dtype)


@contextmanager
def gathered_wrong(params: Sequence[Any], modifier_rank: int | None = None) -> Iterator[None]:
    """Stand in for a DeepSpeed that keeps something else in its partitions."""
    with gathered(params, modifier_rank):
        for parameter in params:
            parameter.data += 1.0
        yield


@contextmanager
def installed(*, is_wrong: bool) -> Iterator[None]:
    """Let `deepspeed` be there."""
    module = ModuleType("deepspeed")
    module.__spec__ = ModuleSpec("deepspeed", None)
    module.zero = SimpleNamespace(GatheredParameters=gathered_wrong if is_wrong else gathered)  # type: ignore[attr-defined]
    sys.modules["deepspeed"] = module
    try:
        yield
    finally:
        del sys.modules["deepspeed"]


def partition(model: nn.Module) -> None:
    """Leave of each parameter this rank's range."""
    for number, parameter in enumerate(model.parameters()):
        own: Any = parameter
        size = -(-parameter.numel() // dist.get_world_size())
        padded = torch.zeros(size * dist.get_world_size(), dtype=parameter.dtype)
        padded[: parameter.numel()] = parameter.detach().reshape(-1)
        own.ds_id, own.ds_shape, own.ds_numel = number, parameter.shape, parameter.numel()
        own.ds_tensor = padded[size * dist.get_rank() :][:size].clone()
        own.ds_tensor.ds_numel = size
        own.data = torch.empty(0, dtype=parameter.dtype)


class DeepSpeedOptimizerWrapper:
    """Has the name of accelerate's wrapper: the engine has stepped by the time that a trainer calls `step`."""

    def step(self) -> None:
        """Do nothing."""


class Engine:
    """Trains partitions: like DeepSpeed's engine, `backward` also makes the update."""

    def __init__(self, model: nn.Module, **options: float) -> None:
        self.model = model
        partition(model)
        self.own = [nn.Parameter(parameter.ds_tensor) for parameter in model.parameters()]  # type: ignore[attr-defined]
        self.inner = torch.optim.AdamW(self.own, **options)

    def backward(self, loss_of: Any) -> Tensor:
        """Compute a loss and its gradients with whole parameters, and step."""
        parameters = list(self.model.parameters())
        with gathered(parameters):
            loss: Tensor = loss_of(self.model)
            loss.backward()
            gradients = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                parameter.grad = None
        for own, gradient in zip(self.own, gradients, strict=True):
            assert gradient is not None
            dist.all_reduce(gradient)
            flat = gradient.reshape(-1) / dist.get_world_size()
            size, start = own.numel(), own.numel() * dist.get_rank()
            own.grad = torch.nn.functional.pad(flat, (0, size * dist.get_world_size() - flat.numel()))[start:][:size]
        self.inner.step()
        return loss


def train(
    model: nn.Module, recorder: Recorder, tokenizer: Any, loss_of: Any, steps: int, options: dict[str, float]
) -> None:
    """Train with the events of a trainer."""
    engine = Engine(model, **options)
    args = SimpleNamespace(to_dict=dict, load_best_model_at_end=False)
    state = SimpleNamespace(is_world_process_zero=dist.get_rank() == 0, max_steps=steps, global_step=0)
    control = TrainerControl()
    optimizer = DeepSpeedOptimizerWrapper()
    recorder.on_train_begin(args, state, control, model=model, optimizer=optimizer, processing_class=tokenizer)
    for _ in range(steps):
        recorder.on_step_begin(args, state, control)
        loss = engine.backward(loss_of)
        recorder.on_pre_optimizer_step(args, state, control)
        recorder.on_optimizer_step(args, state, control)
        state.global_step += 1
        control.should_training_stop = state.global_step == steps
        recorder.on_step_end(args, state, control)
        recorder.on_log(args, state, control, logs={"loss": float(loss.detach())})
    recorder.on_train_end(args, state, control, model=model)
