"""Every optimizer of torch and transformers: its intended step is that of a float64 twin, or refused with a reason."""

from __future__ import annotations

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers.optimization import Adafactor as TransformersAdafactor

from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.step_rule import Part

OF_TORCH = [
    kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and name not in ("Optimizer", "LBFGS")
]
"""LBFGS steps only through a closure, which hides its gradients anyway."""
KNOWN = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD)
DRAWN = {
    torch.optim.SGD: {
        "momentum": st.sampled_from([0.0, 0.9]),
        "dampening": st.sampled_from([0.0, 0.3]),
        "nesterov": st.booleans(),
        "maximize": st.booleans(),
        "foreach": st.booleans(),
        "fused": st.booleans(),
        "weight_decay": st.sampled_from([0.0, 0.1]),
    }
}
OF_ADAM = {
    "betas": st.sampled_from([(0.9, 0.999), (0.0, 0.99), (0.5, 0.5)]),
    "eps": st.sampled_from([1e-8, 1e-3]),
    "amsgrad": st.booleans(),
    "maximize": st.booleans(),
    "foreach": st.booleans(),
    "fused": st.booleans(),
    "weight_decay": st.sampled_from([0.0, 0.1]),
}
DRAWN |= {torch.optim.Adam: OF_ADAM, torch.optim.AdamW: OF_ADAM}


def legal(options: dict[str, object]) -> dict[str, object]:
    """Return options that torch accepts together."""
    if options.get("nesterov"):
        options |= {"momentum": 0.9, "dampening": 0.0}
    if options.get("fused"):
        options |= {"foreach": False}
    return options


@pytest.mark.parametrize("kind", KNOWN)
@given(data=st.data(), seed=st.integers(0, 2**31), rate=st.sampled_from([1e-6, 1e-2]), steps=st.integers(1, 4))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_equals_a_float64_twin_with_any_options(kind, data, seed, rate, steps):
    options = legal({name: data.draw(values, label=name) for name, values in DRAWN[kind].items()})
    generator = torch.Generator().manual_seed(seed)
    weight = nn.Parameter(torch.randn(6, 4, generator=generator))
    twin = nn.Parameter(weight.detach().double())
    optimizer, twin_optimizer = kind([weight], lr=rate, **options), kind([twin], lr=rate, **options)
    intended = IntendedSteps(optimizer)
    for _ in range(steps):
        weight.grad = torch.randn(weight.shape, generator=generator)
        twin.grad = weight.grad.double()
        # The twin starts from the stored weight each time: only the step is compared.
        twin.data.copy_(weight.detach())
        before = weight.detach().clone()
        optimizer.step()
        twin_optimizer.step()
        intended.refresh()
        (step,) = intended.steps([Part(weight, lambda tensor: tensor, before)])
        true = twin.detach() - before.double()
        assert float((step.double() - true).norm()) <= 1e-5 * float(true.norm())


@pytest.mark.parametrize(
    "kind", [k for k in [*OF_TORCH, TransformersAdafactor] if k not in KNOWN], ids=lambda k: k.__name__
)
def test_any_other_is_refused_by_name(kind):
    """Muon, Adafactor and the rest: the measured step is there, a guessed one is not."""
    intended = IntendedSteps(kind([nn.Parameter(torch.randn(6, 4))]))
    assert kind.__qualname__ in (intended.unavailable or "")
    assert kind.__qualname__ in intended.method


def test_a_capturable_step_count_lives_on_the_device():
    """On an accelerator `capturable` keeps the count as a tensor there: it is read all the same."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.0)
    weight.grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["capturable"] = True
    optimizer.param_groups[0]["lr"] = torch.tensor(0.1)
    intended = IntendedSteps(optimizer)
    intended.refresh()
    (step,) = intended.steps([Part(weight, lambda tensor: tensor, torch.ones(3))])
    # Adam's first step is −lr in every element whose gradient is positive.
    assert step.tolist() == pytest.approx([-0.1] * 3, rel=1e-5)


def test_a_gradient_that_no_state_explains_is_nan_with_the_reason():
    stepped, stranger = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    for make in (torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
        stepped.grad, stranger.grad = torch.ones(3), None
        optimizer = make([stepped, stranger])
        optimizer.step()
        stranger.grad = torch.ones(3)
        intended = IntendedSteps(optimizer)
        intended.refresh()
        parts = [Part(p, lambda tensor: tensor, torch.ones(3)) for p in (stepped, stranger)]
        known, unknown = intended.steps(parts)
        assert bool(known.isfinite().all())
        assert bool(unknown.isnan().all())
        assert intended.unknown.keys() == {id(stranger)}
        assert "no state" in intended.unknown[id(stranger)]
