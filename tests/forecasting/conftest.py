from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grpodyn.series import RewardSeries

SIMULATION = Path(__file__).parents[1] / "simulation"


def _load(name: str) -> ModuleType:
    key = f"grpodyn_simulation_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, SIMULATION / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


@pytest.fixture(scope="session")
def curves() -> ModuleType:
    return _load("curves")


@pytest.fixture(scope="session")
def series_of() -> Callable[..., RewardSeries]:
    """Return the first share of a simulated curve as a series."""

    def series(curve: Any, share: float = 1.0) -> RewardSeries:
        n = max(2, round(len(curve.step) * share))
        trials = None if curve.trials is None else curve.trials[:n]
        bounds = None if trials is None else (0.0, 1.0)
        return RewardSeries(
            "reward", curve.step[:n], curve.value[:n], trials=trials, max_steps=curve.max_steps, bounds=bounds
        )

    return series


@pytest.fixture
def exponential() -> Callable[..., RewardSeries]:
    """Return an exponential rise with Gaussian noise."""

    def make(
        n: int = 120,
        tau: float = 15.0,
        start: float = 0.2,
        end: float = 0.8,
        sd: float = 0.02,
        seed: int = 0,
        **fields: Any,
    ) -> RewardSeries:
        step = np.arange(1, n + 1)
        value = end - (end - 0.2) * np.exp(-(step - 1) / tau) + sd * np.random.default_rng(seed).standard_normal(n)
        return RewardSeries("reward", step, value, **{"max_steps": n, **fields})

    return make
