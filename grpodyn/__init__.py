"""grpodyn: what happened inside a GRPO run, and what to change next.

>>> import grpodyn
>>> sorted(grpodyn.__all__)
['Recorder', 'Run', '__version__', 'open_run']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpodyn.recording.recorder import Recorder
    from grpodyn.trace.reader import Run, open_run

__version__ = "0.1.0"
__all__ = ["Recorder", "Run", "__version__", "open_run"]

# Loaded on first use: `import grpodyn` must cost milliseconds and never import torch.
_HOME = {"Recorder": "grpodyn.recording.recorder", "Run": "grpodyn.trace.reader", "open_run": "grpodyn.trace.reader"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'grpodyn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
