"""A loop of one's own on a model of a few hundred parameters: a step takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig

FULL = RecordConfig(preset="full", copy_limit=1 << 20)


@pytest.fixture
def make_net() -> Callable[[], nn.Module]:
    def make(seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    return make


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "run", FULL)


@pytest.fixture
def read(tmp_path: Path) -> Callable[[], Any]:
    return lambda: open_run(tmp_path / "run")
