"""Whatever a model and its optimizer do in the middle of a run, training goes on with the same bits, and numbers that
are recorded are right or nan."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.reference import equal_bits

FULL = RecordConfig(preset="full")
STEPS = 6


class Odd(nn.Module):
    """A model with a parameter of every odd kind beside ordinary layers."""

    def __init__(self, kinds: frozenset[str]) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 2)
        self.kinds = kinds
        if "scalar" in kinds:
            self.scale = nn.Parameter(torch.tensor(0.5))
        if "empty" in kinds:
            self.empty = nn.Parameter(torch.zeros(0, 4))
        if "integer" in kinds:
            self.codes = nn.Parameter(torch.arange(6).reshape(2, 3), requires_grad=False)
        if "boolean" in kinds:
            self.mask = nn.Parameter(torch.ones(3, dtype=torch.bool), requires_grad=False)
        if "complex" in kinds:
            self.phase = nn.Parameter(torch.ones(3, dtype=torch.complex64))
        if "meta" in kinds:
            self.nowhere = nn.Parameter(torch.empty(3, 3, device="meta"))
        if "frozen_meta" in kinds:
            self.frozen_nowhere = nn.Parameter(torch.empty(3, 3, device="meta"), requires_grad=False)
        if "sparse" in kinds:
            self.table = nn.Embedding(9, 3, sparse=True)
        if "half" in kinds:
            self.narrow = nn.Parameter(torch.ones(4, 4, dtype=torch.bfloat16))
        if "double" in kinds:
            self.double_precision = nn.Parameter(torch.ones(4, 4, dtype=torch.float64))
        if "strided" in kinds:
            self.transposed = nn.Parameter(torch.arange(12.0).reshape(3, 4).t())
        if "five" in kinds:
            self.five = nn.Parameter(torch.ones(2, 1, 2, 1, 2))
        if "unused" in kinds:
            self.unused = nn.Linear(3, 3)
        if "nan" in kinds:
            self.bad = nn.Parameter(torch.tensor([1.0, torch.nan, torch.inf]))

    def forward(self, inputs: torch.Tensor, step: int) -> torch.Tensor:
        loss = self.second(torch.tanh(self.first(inputs))).square().mean()
        if "scalar" in self.kinds:
            loss = loss * self.scale
        if "sparse" in self.kinds:
            loss = loss + self.table(torch.tensor([step % 9, (step + 1) % 9, step % 9])).square().sum()
        names = ("narrow", "double_precision", "transposed", "five", "bad", "late")
        for own in (getattr(self, name) for name in names if hasattr(self, name)):
            loss = loss + own.float().square().mean() * 0.1
        if "complex" in self.kinds:
            loss = loss + self.phase.abs().square().mean()
        return loss


def nothing(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Leave everything as it is."""


def poison(net: Any, optimizer: torch.optim.Optimizer) -> None:
    net.second.weight.data[0, 0] = torch.nan


def overflow(net: Any, optimizer: torch.optim.Optimizer) -> None:
    net.second.weight.data[0, 0] = torch.inf


def freeze(net: Any, optimizer: torch.optim.Optimizer) -> None:
    net.first.weight.requires_grad_(False)


def appear(net: Any, optimizer: torch.optim.Optimizer) -> None:
    net.late = nn.Parameter(torch.ones(3, 3))
    optimizer.add_param_group({"params": [net.late]})


def vanish(net: Any, optimizer: torch.optim.Optimizer) -> None:
    net.second.bias.data = torch.zeros(0)
    optimizer.state.pop(net.second.bias, None)
    net.second.bias = None


def shrink(net: Any, optimizer: torch.optim.Optimizer) -> None:
    weight = net.first.weight
    weight.data, weight.grad = weight.data[:3].clone(), None
    optimizer.state.pop(weight, None)
    net.first.bias.data, net.first.bias.grad = net.first.bias.data[:3].clone(), None
    optimizer.state.pop(net.first.bias, None)
    net.second.weight.data, net.second.weight.grad = net.second.weight.data[:, :3].clone(), None
    optimizer.state.pop(net.second.weight, None)


def move(net: Any, optimizer: torch.optim.Optimizer) -> None:
    """Give a parameter other storage, as merging and averaging code does."""
    net.first.weight.data = net.first.weight.data.clone() + 1.0


def widen(net: Any, optimizer: torch.optim.Optimizer) -> None:
    for parameter in net.second.parameters():
        parameter.data = parameter.data.double().float()


def forget_state(net: Any, optimizer: torch.optim.Optimizer) -> None:
    optimizer.state.clear()


EVENTS: list[Callable[[Any, torch.optim.Optimizer], None]] = [
    nothing, poison, overflow, freeze, appear, vanish, shrink, move, widen, forget_state,
]  # fmt: skip
KINDS = (
    "scalar", "empty", "integer", "boolean", "complex", "meta", "frozen_meta", "sparse", "half", "double", "strided",
    "five", "unused", "nan",
)  # fmt: skip


def optimizer_for(net: nn.Module, kind: str) -> torch.optim.Optimizer:
    moving = [p for p in net.parameters() if p.requires_grad and not p.is_meta]
    if kind == "SGD" or (isinstance(net, Odd) and "sparse" in net.kinds):
        return torch.optim.SGD(moving, lr=0.01)
    return {"AdamW": torch.optim.AdamW, "RMSprop": torch.optim.RMSprop}[kind](moving, lr=0.01)


def train(
    kinds: frozenset[str], event: Callable[..., None], at: int, kind: str, recorder: Recorder | None
) -> tuple[nn.Module, dict[int, dict[str, tuple[float, float]]]]:
    """Train, and return the model with (‖g‖, ‖ΔW‖) by step and parameter."""
    torch.manual_seed(0)
    net = Odd(kinds)
    optimizer = optimizer_for(net, kind)
    truth: dict[int, dict[str, tuple[float, float]]] = {}
    if recorder is not None:
        recorder.attach(net, optimizer)
    for step in range(1, STEPS + 1):
        if step == at:
            event(net, optimizer)
        optimizer.zero_grad()
        inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(step))
        net(inputs, step).backward()
        before = {name: (p, p.detach().clone()) for name, p in net.named_parameters() if p.grad is not None}
        optimizer.step()
        truth[step] = {
            name: (dense_norm(p.grad), dense_norm(p.detach().to(torch.complex128) - old.to(torch.complex128)))
            for name, (p, old) in before.items()
        }
        if recorder is not None:
            recorder.step({"loss": 1.0})
    if recorder is not None:
        recorder.close()
    return net, truth


def dense_norm(tensor: Any) -> float:
    wide = (tensor.to_dense() if tensor.is_sparse else tensor).detach().to(torch.complex128)
    return float(torch.linalg.vector_norm(wide))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_once(tmp_path: Path, event: Callable[..., None]) -> None:
    check(frozenset({"half", "scalar"}), event, 3, "AdamW", tmp_path)


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("sparse", "complex", "empty") else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_every_kind_once(tmp_path: Path, kind: str) -> None:
    check(frozenset({kind}), nothing, 1, "AdamW", tmp_path)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    kinds=st.frozensets(st.sampled_from(KINDS), max_size=6),
    event=st.sampled_from(EVENTS),
    at=st.integers(1, STEPS),
    kind=st.sampled_from(["AdamW", "SGD", "RMSprop"]),
)
def test_any_mixture(kinds: frozenset[str], event: Callable[..., None], at: int, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(kinds, event, at, kind, Path(folder))


def check(kinds: frozenset[str], event: Callable[..., None], at: int, kind: str, folder: Path) -> None:
    with warnings.catch_warnings():
        # torch's own word on sparse and complex tensors, recorded or not.
        warnings.simplefilter("ignore")
        plain, truth = train(kinds, event, at, kind, None)
        recorded, _ = train(kinds, event, at, kind, Recorder(folder / "run", FULL))
    for (name, a), (_, b) in zip(plain.named_parameters(), recorded.named_parameters(), strict=True):
        assert a.is_meta or a.dtype.is_complex or equal_bits(a.detach(), b.detach()), name
    run = open_run(folder / "run")
    assert run.status == "finished"
    assert run.tensors.step.values.tolist() == list(range(1, STEPS + 1))
    assert run.manifest.recorder["faults"] == {}
    rows = run.tensors.tensor.values.tolist()
    missing: set[str] = set()
    for step, by_name in truth.items():
        for name in by_name.keys() & set(rows):
            place = (step - 1, rows.index(name))
            for probe, true in zip(("grad_norm", "update_norm"), by_name[name], strict=True):
                value = float(run.tensors[probe].values[place])
                if np.isfinite(value):
                    assert value == pytest.approx(true, rel=1e-4, abs=1e-9), (probe, step, name)
                elif np.isfinite(true):
                    missing.add(name)
    # What is missing although it could have been measured is named.
    told = str([event for event in run.events if "not recorded" not in event["what"]])
    assert all(name in told for name in missing), (missing, told)
    ordinary = {"first.weight", "first.bias"} - missing
    if event in (nothing, freeze, appear, vanish, move, widen, forget_state):
        assert ordinary == {"first.weight", "first.bias"}
