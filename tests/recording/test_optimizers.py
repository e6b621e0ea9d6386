"""Intended steps from optimizer state, held against the step a float64 twin of the optimizer takes."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.step_rule import Part

OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}),
    "adamw-amsgrad": (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True}),
    "adamw-fused": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "fused": True}),
    "adamw-tensor-lr": (torch.optim.AdamW, {"lr": torch.tensor(1e-2), "weight_decay": 0.1}),
    "adam-l2": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "adam-maximize": (torch.optim.Adam, {"lr": 1e-2, "maximize": True}),
    "sgd": (torch.optim.SGD, {"lr": 1e-1, "weight_decay": 0.1}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    "sgd-nesterov": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd-maximize": (torch.optim.SGD, {"lr": 1e-1, "maximize": True, "weight_decay": 0.1}),
}


def whole(parameter: nn.Parameter, previous: torch.Tensor) -> Part:
    return Part(parameter, lambda tensor: tensor, previous)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=OPTIMIZERS)
def test_equals_the_step_of_a_float64_twin(case):
    make, options = OPTIMIZERS[case]
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4))]
    twins = [nn.Parameter(p.detach().double().clone()) for p in parameters]
    optimizer, twin_optimizer = make(parameters, **options), make(twins, **options)
    intended = IntendedSteps(optimizer)
    assert intended.unavailable is None
    for _ in range(6):
        for parameter, twin in zip(parameters, twins, strict=True):
            parameter.grad = torch.randn_like(parameter)
            twin.grad = parameter.grad.double()
            # The twin starts from the stored weight each time: only the step is compared.
            twin.data.copy_(parameter.detach())
        before = [p.detach().clone() for p in parameters]
        optimizer.step()
        twin_optimizer.step()
        intended.refresh()
        steps = intended.steps([whole(p, b) for p, b in zip(parameters, before, strict=True)])
        for step, twin, start in zip(steps, twins, before, strict=True):
            true = twin.detach() - start.double()
            assert float((step.double() - true).norm() / true.norm()) < 5e-6


def test_rows_of_a_parameter():
    parameter = nn.Parameter(torch.randn(6, 2))
    optimizer = torch.optim.AdamW([parameter], lr=1e-2, weight_decay=0.5)
    parameter.grad = torch.randn(6, 2)
    before = parameter.detach().clone()
    optimizer.step()
    intended = IntendedSteps(optimizer)
    intended.refresh()
    (all_rows,) = intended.steps([whole(parameter, before)])
    rows = torch.tensor([1, 4])
    (some,) = intended.steps([Part(parameter, lambda tensor: tensor.index_select(0, rows), before[rows])])
    assert torch.equal(some, all_rows[rows])


def test_a16_bfloat16_is_read_before_rounding():
    """A16: at a small rate, hardly any stored bit changes, and the intended step is still there."""
    torch.manual_seed(0)
    parameter = nn.Parameter((torch.randn(1000) * 0.02).bfloat16())
    optimizer = torch.optim.AdamW([parameter], lr=1e-6, weight_decay=0.0)
    parameter.grad = torch.randn(1000).sign().bfloat16()
    before = parameter.detach().clone()
    optimizer.step()
    intended = IntendedSteps(optimizer)
    intended.refresh()
    (step,) = intended.steps([whole(parameter, before)])
    # Adam's first step is ±lr everywhere (up to ε and bf16 moments).
    assert float(step.norm()) == pytest.approx(1e-6 * 1000**0.5, rel=1e-2)
    changed = (parameter.detach() != before).float().mean()
    assert float(changed) < 0.1


def test_no_gradient_and_a_skipped_step_are_steps_of_zero():
    parameter, idle = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter, idle], lr=1e-2)
    parameter.grad = torch.ones(3)
    optimizer.step()
    intended = IntendedSteps(optimizer)
    intended.refresh()
    moved, still = intended.steps([whole(parameter, torch.ones(3)), whole(idle, torch.ones(3))])
    assert (moved != 0).all()
    assert (still == 0).all()
    wrapper = SimpleNamespace(optimizer=optimizer, step_was_skipped=True)
    skipping = IntendedSteps(wrapper)
    assert (skipping.steps([whole(parameter, torch.ones(3))])[0] == 0).all()


def test_anything_else_is_unavailable_and_never_guessed():
    class MyAdamW(torch.optim.AdamW):
        """A subclass may step differently."""

    parameter = nn.Parameter(torch.ones(3))
    for optimizer in (MyAdamW([parameter]), torch.optim.Adagrad([parameter]), torch.optim.NAdam([parameter])):
        intended = IntendedSteps(optimizer)
        assert type(optimizer).__name__ in (intended.unavailable or "")
        with pytest.raises(ValueError, match="intended step"):
            intended.steps([whole(parameter, parameter.detach())])


def test_reading_changes_nothing():
    parameter = nn.Parameter(torch.randn(4, 4))
    optimizer = torch.optim.AdamW([parameter], lr=1e-2, weight_decay=0.1)
    parameter.grad = torch.randn(4, 4)
    before = parameter.detach().clone()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    after = parameter.detach().clone()
    intended = IntendedSteps(optimizer)
    intended.refresh()
    intended.steps([whole(parameter, before)])
    for key, value in optimizer.state_dict()["state"][0].items():
        assert torch.equal(value, state["state"][0][key])
    assert torch.equal(parameter.detach(), after)
