"""Judges many programs side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from grpodyn.sandbox.judge import judge
from grpodyn.sandbox.limits import Limits
from grpodyn.sandbox.outcome import Outcome
from grpodyn.sandbox.program import Program
from grpodyn.sandbox.walls import Walls, find_walls


class SandboxPool:
    """Programs behind walls, as many at a time as there are cores; a slow program holds up one place alone.

    Args:
        workers: programs judged at one time; by default one a core.
        limits: of each process.
        allow_missing_walls: run also where this machine cannot build walls, see `find_walls`.

    Raises:
        ConfigError: no walls can be built here, and that is not accepted.
    """

    def __init__(
        self, workers: int | None = None, limits: Limits | None = None, allow_missing_walls: bool = False
    ) -> None:
        self.walls: Walls = find_walls(allow_missing_walls)
        self.limits = limits or Limits()
        self._workers = workers or os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="sandbox")

    def judge(self, programs: Sequence[Program]) -> list[Outcome]:
        """Return what came of each program, in their order."""
        return list(self._threads.map(lambda program: judge(program, self.walls.kind, self.limits), programs))

    def close(self) -> None:
        """Wait for what runs, and end."""
        self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
