"""Judges answers in processes of their own, which are killed when they take too long.

Whether two expressions are equal, or what a puzzle's checker makes of an answer, can take for ever or all memory on the
wrong text (`9^(9^9)`), in code that no Python exception interrupts. So libraries that judge such text run in workers; a
judgement that is not done in time is none, and the answer is wrong.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, Literal

from grpodyn.errors import ConfigError

Kind = Literal["math", "reasoning_gym"]

SECONDS: Final = 5.0
"""CPU time of one judgement."""
PATIENCE: Final = 6.0
"""How many times that it may take by the clock: a busy machine makes no answer wrong."""
START_SECONDS: Final = 300.0
"""Wall time of a worker's start: it imports sympy, on a machine that may be busy."""
MOST_CHARACTERS: Final = 2000
"""Of an answer; a longer one is none."""
_WORKERS: Final = max(1, min(4, os.cpu_count() or 1))


class Referee:
    """Workers that judge; started when the first question is asked, gone when this process is.

    Args:
        kind: `math` or `reasoning_gym`.
        seconds: CPU time of one judgement.
        workers: processes at most.
    """

    def __init__(self, kind: Kind, seconds: float = SECONDS, workers: int = _WORKERS) -> None:
        self._kind, self._seconds = kind, seconds
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._idle.put(None)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="referee")

    def judge(self, questions: Sequence[dict[str, Any]]) -> list[float]:
        """Return the score of each question; 0.0 where the judgement took too long or failed.

        Raises:
            ConfigError: the library that judges is not installed, or no worker can be started.
        """
        asked = list(dict.fromkeys(json.dumps(question, sort_keys=True) for question in questions))
        known = dict(zip(asked, self._threads.map(self._one, asked), strict=True))
        return [known[json.dumps(question, sort_keys=True)] for question in questions]

    def close(self) -> None:
        """End all workers."""
        self._threads.shutdown()
        with contextlib.suppress(queue.Empty):
            while True:
                worker = self._idle.get_nowait()
                if worker is not None:
                    worker.kill()

    def _one(self, question: str) -> float:
        worker = self._idle.get()
        try:
            if worker is None:
                worker = _Worker(self._kind, self._seconds)
            score = worker.ask(question)
            if score is None:
                worker.kill()
                worker = None
            return score or 0.0
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, and the pipes to it."""

    def __init__(self, kind: Kind, seconds: float) -> None:
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grpodyn.rewards.referee_worker", kind, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        )
        self._rest = b""
        said = self._line(START_SECONDS)
        if said != b"ready":
            self.kill()
            why = "it did not start" if said is None else json.loads(said.removeprefix(b"missing "))
            raise ConfigError(f"answers cannot be judged: {why}")

    def ask(self, question: str) -> float | None:
        """Return a score; None if there is none and the process is of no more use."""
        assert self._process.stdin is not None  # noqa: S101  # for the type checker
        try:
            self._process.stdin.write(question.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return None
        line = self._line(self._seconds * PATIENCE)
        return None if line is None else float(line)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None  # noqa: S101  # for the type checker
        handle, until = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
            part = os.read(handle, 1 << 16) if ready else b""
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def check_installed(kind: Kind) -> None:
    """Check that the library that judges can be imported.

    Raises:
        ConfigError: it cannot.
    """
    module = {"math": "math_verify", "reasoning_gym": "reasoning_gym"}[kind]
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"answers cannot be judged without {module}: pip install 'grpodyn[tasks]'")


@cache
def referee(kind: Kind) -> Referee:
    """Return the referee of this process."""
    return Referee(kind)
