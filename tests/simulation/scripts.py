"""The scripts in `reports/`, which are no package, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

REPORTS = Path(__file__).parents[2] / "reports"


def report_script(name: str) -> ModuleType:
    """Return a script of `reports/` by its name, such as `ablation`."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", REPORTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
