from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grpodyn.diagnosis import Diagnosis, Finding, diagnose
from grpodyn.diagnosis.of_history import observe_history
from grpodyn.importers.history import understand
from grpodyn.importers.json_log import rows_log

SIMULATION = Path(__file__).parents[1] / "simulation"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", SIMULATION / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    return _load("faults")


@pytest.fixture(scope="session")
def observe() -> Callable[..., Any]:
    return _load("observing").observe


class Found:
    """A diagnosis with its findings by id."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self.by_id = {finding.id: finding for finding in diagnosis.findings}
        self.ids = set(self.by_id)
        self.alarms = {finding.id for finding in diagnosis.findings if finding.severity != "info"}
        self.why_not = {item.id: item.why for item in diagnosis.unchecked}

    def __getitem__(self, name: str) -> Finding:
        return self.by_id[name]


@pytest.fixture
def of_log() -> Callable[..., Found]:
    """Diagnose rows as a trainer would have printed them."""

    def run(rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, **settings: Any) -> Found:
        log = rows_log("a test", [dict(row) for row in rows])
        history = understand(log)
        seen = observe_history(history, "a test", config)
        return Found(diagnose(type(seen)(**{**vars_of(seen), "settings": {**seen.settings, **settings}})))

    return run


def vars_of(seen: Any) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in seen.__dataclass_fields__}


def columns(rows: int, **values: Any) -> list[dict[str, Any]]:
    """Return rows 1…n from one value, array, or function of the step for each key."""
    steps = np.arange(1, rows + 1)
    made = {}
    for key, value in values.items():
        made[key] = value(steps) if callable(value) else np.broadcast_to(np.asarray(value, dtype=float), rows)
    return [{"step": int(s), **{key: float(column[i]) for key, column in made.items()}} for i, s in enumerate(steps)]


@pytest.fixture
def log_of() -> Callable[..., list[dict[str, Any]]]:
    return columns
