"""Model-written code run behind walls: what may be trusted of it is only what comes through the pipe.

Two processes work on each completion. One holds the model's code and answers calls; the other holds the tests, calls
the first through a pipe and sees plain values alone. Nothing that the model's code does to its own interpreter reaches
the test that judges it.
"""

from __future__ import annotations

from grpodyn.sandbox.limits import Limits
from grpodyn.sandbox.outcome import Outcome, TestResult
from grpodyn.sandbox.pool import SandboxPool
from grpodyn.sandbox.program import Program, StdioCase
from grpodyn.sandbox.walls import Walls, find_walls

__all__ = ["Limits", "Outcome", "Program", "SandboxPool", "StdioCase", "TestResult", "Walls", "find_walls"]
