"""Lion's intended step from its state, held against a replay in float64 by the paper's own order of operations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.step_rule import Part


class Lion(torch.optim.Optimizer):
    """Steps as lion-pytorch 0.2.5 does (MIT licence, github.com/lucidrains/lion-pytorch), with its names."""

    momentum = "exp_avg"

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, decoupled_weight_decay=False, **more):
        self._init_lr = lr
        self.decoupled_wd = decoupled_weight_decay
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay, **more})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            rate, (beta1, beta2) = group["lr"], group["betas"]
            decay = group["weight_decay"] / self._init_lr if self.decoupled_wd else group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault(self.momentum, torch.zeros_like(p))
                p.mul_(1 - rate * decay)
                update = average.clone().mul_(beta1).add(p.grad, alpha=1 - beta1).sign_()
                p.add_(update, alpha=-rate)
                average.mul_(beta2).add_(p.grad, alpha=1 - beta2)


Lion.__module__ = "lion_pytorch.lion_pytorch"


class Lion32bit(Lion):
    """Keeps its state as bitsandbytes 0.50 does: float32 of any weight, under another name; decay depends on device."""

    momentum = "state1"

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, **arguments):
        super().__init__(parameters, lr, betas, weight_decay, eps=0.0)
        self.args = SimpleNamespace(**{"max_unorm": 0.0, "skip_zeros": False, **arguments})
        self.mng = SimpleNamespace(index2config={})


Lion32bit.__module__ = "bitsandbytes.optim.lion"


def step_and_read(optimizer, parameters):
    """Return, for each parameter, the intended step that is read and the weight before it."""
    before = [p.detach().clone() for p in parameters]
    optimizer.step()
    intended = IntendedSteps(optimizer)
    assert intended.unavailable is None
    intended.refresh()
    return intended, intended.steps([Part(p, lambda t: t, b) for p, b in zip(parameters, before, strict=True)]), before


def replayed(momentum, gradient, before, rate, betas, decay):
    """Return (step, momentum after it) of algorithm 2 of Chen et al. 2023, in float64."""
    update = torch.sign(betas[0] * momentum + (1 - betas[0]) * gradient)
    return -rate * (update + decay * before), betas[1] * momentum + (1 - betas[1]) * gradient


@pytest.mark.parametrize("make", [Lion, Lion32bit])
@given(
    seed=st.integers(0, 2**31),
    betas=st.sampled_from([(0.9, 0.99), (0.95, 0.98), (0.0, 0.5), (0.99, 0.9), (0.5, 0.5)]),
    decay=st.sampled_from([0.0, 0.1]),
    rate=st.sampled_from([1e-6, 1e-2]),
    steps=st.integers(1, 5),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_equals_a_float64_replay(make, seed, betas, decay, rate, steps):
    decay = 0.0 if make is Lion32bit else decay
    generator = torch.Generator().manual_seed(seed)
    parameters = [nn.Parameter(torch.randn(7, 5, generator=generator)), nn.Parameter(torch.randn(4))]
    optimizer = make(parameters, lr=rate, betas=betas, weight_decay=decay)
    momenta = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator) * (torch.rand(p.shape, generator=generator) > 0.2)
        _, read, before = step_and_read(optimizer, parameters)
        for i, p in enumerate(parameters):
            true, momenta[i] = replayed(momenta[i], p.grad.double(), before[i].double(), rate, betas, decay)
            assert float((read[i].double() - true).norm()) <= 1e-5 * float(true.norm())


def test_decay_stated_for_a_rate_of_one():
    """lion-pytorch's decoupled decay: λ is divided by the first learning rate, whatever the schedule does to it."""
    weight = nn.Parameter(torch.full((2,), 3.0))
    optimizer = Lion([weight], lr=0.01, weight_decay=0.001, decoupled_weight_decay=True)
    optimizer.param_groups[0]["lr"] = 0.005
    weight.grad = torch.tensor([1.0, -1.0])
    _, (step,), _ = step_and_read(optimizer, [weight])
    # −0.005·(±1) − 0.005·(0.001/0.01)·3
    assert step.tolist() == pytest.approx([-0.005 - 0.0015, 0.005 - 0.0015], rel=1e-6)


def test_what_never_had_a_gradient_does_not_move():
    moved, still, zero = (nn.Parameter(torch.ones(3)) for _ in range(3))
    optimizer = Lion([moved, still, zero], lr=0.1)
    moved.grad, zero.grad = torch.ones(3), torch.zeros(3)
    _, (of_moved, of_still, of_zero), _ = step_and_read(optimizer, [moved, still, zero])
    assert of_moved.tolist() == pytest.approx([-0.1] * 3)
    assert of_still.tolist() == of_zero.tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8])
def test_a_momentum_that_is_not_whole_tells_no_sign(dtype: torch.dtype):
    """A bf16 or 8-bit momentum is off by more than the sum whose sign is asked for: nan with the reason, no guess."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = Lion32bit([weight], lr=0.1)
    weight.grad = torch.ones(3)
    optimizer.step()
    optimizer.state[weight]["state1"] = optimizer.state[weight]["state1"].to(dtype)
    intended = IntendedSteps(optimizer)
    intended.refresh()
    (step,) = intended.steps([Part(weight, lambda t: t, weight.detach().clone())])
    assert step.isnan().all()
    assert str(dtype).removeprefix("torch.") in intended.unknown[id(weight)]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda p: Lion(p, cautious_factor=0.0), "cautious_factor"),
        (lambda p: Lion32bit(p, weight_decay=0.1), "weight decay"),
        (lambda p: Lion32bit(p, max_unorm=1.0), "clips"),
        (lambda p: Lion32bit(p, percentile_clipping=95), "clips"),
        (lambda p: Lion32bit(p, skip_zeros=True), "skips"),
    ],
)
def test_options_that_change_the_step_are_named(make, word: str):
    intended = IntendedSteps(make([nn.Parameter(torch.ones(3))]))
    assert word in (intended.unavailable or "")
    assert intended.method.startswith("not measured: ")


def test_options_by_parameter_and_paged_states_are_named():
    by_parameter, paged = (Lion32bit([nn.Parameter(torch.ones(3))]) for _ in range(2))
    by_parameter.mng.index2config[0, 0] = {"lr": 1.0}
    paged.is_paged = True
    assert "by parameter" in (IntendedSteps(by_parameter).unavailable or "")
    assert "paged" in (IntendedSteps(paged).unavailable or "")


def test_a_class_of_the_same_name_from_elsewhere_is_no_lion():
    class Other(Lion):
        pass

    Other.__name__, Other.__module__ = "Lion", "my_lion"
    assert "my_lion" in (IntendedSteps(Other([nn.Parameter(torch.ones(3))])).unavailable or "")


def test_recorded_beside_what_cannot_be_told(tmp_path):
    """The run says how each step is known; what is not told is nan with its reason, and never called a fault."""
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 2, bias=False))
    optimizer = Lion32bit(net.parameters(), lr=0.01)
    config = RecordConfig(preset="full", probes=["update_norm", "update_norm_intended"])
    with Recorder(tmp_path / "run", config).attach(net, optimizer) as recorder:
        for step in range(3):
            net(torch.randn(5, 4)).square().sum().backward()
            optimizer.step()
            if step == 0:
                # What an 8-bit optimizer keeps of a large matrix.
                second = optimizer.state[net[1].weight]
                second["state1"] = second["state1"].bfloat16()
            recorder.step()
    run = open_run(tmp_path / "run")
    told, untold = run.tensors["update_norm_intended"].values.T
    assert told == pytest.approx([0.01 * 12**0.5] * 3, rel=1e-6)
    assert untold[0] == pytest.approx(0.01 * 6**0.5, rel=1e-6)
    assert np.isnan(untold[1:]).all()
    assert run.tensors["update_norm"].notnull().all()
    assert [e["why"].split(",")[0] for e in run.events if "intended step" in e["what"]] == [
        "its momentum is kept as bfloat16"
    ]
    assert not [event for event in run.events if "non-finite" in event["what"] or "fault" in event["what"]]
    assert "bitsandbytes.optim.lion" in run.manifest.recorder["method"]["update_norm_intended"]
