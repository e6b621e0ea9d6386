"""A thread that computes spectra beside the training thread, one torch thread wide. It never touches the trainer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from grpodyn.recording.cost import thread_seconds
from grpodyn.recording.patience import LOOK_SECONDS
from grpodyn.spectra.lowrank import LowRank


@dataclass(frozen=True)
class Weights:
    """A weight at two times."""

    before: Tensor
    after: Tensor


Matrix = Tensor | LowRank | Weights
Key = TypeVar("Key")


class SpectraWorker(Generic[Key]):
    """Runs `compute(key, matrix)` on a thread of its own; what runs there must not raise.

    Args:
        compute: what is done with each matrix.
    """

    def __init__(self, compute: Callable[[Key, Matrix], None]) -> None:
        self._compute = compute
        self._jobs: deque[tuple[Key, Matrix, int]] = deque()
        self._waiting_bytes = 0
        self._stopping = False
        self._ended_seconds = 0.0
        self._changed = threading.Condition()
        started = threading.Event()
        threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._work, args=(started,), name="grpodyn-spectra", daemon=True)
        self._thread.start()
        started.wait()
        # A thread's own limit is also what later threads of the process begin with: set it back for them.
        torch.set_num_threads(threads)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the matrices that are not done yet."""
        return self._waiting_bytes

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds the thread has used."""
        return max(self._ended_seconds, thread_seconds(self._thread))

    def submit(self, key: Key, matrix: Matrix, size: int) -> None:
        """Queue a matrix of `size` bytes, which nobody else writes to."""
        with self._changed:
            self._jobs.append((key, matrix, size))
            self._waiting_bytes += size
            self._changed.notify_all()

    def wait(self, bytes_left: int = 0, lasts: Callable[[], bool] | None = None) -> bool:
        """Return when at most `bytes_left` bytes are not done; whether that is so.

        Args:
            bytes_left: what may be left.
            lasts: asked now and then whether to go on waiting; no end if not given.
        """
        while not self._has_left(bytes_left, None if lasts is None else LOOK_SECONDS):
            if lasts is not None and not lasts():
                return False
        return True

    def _has_left(self, bytes_left: int, seconds: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: self._waiting_bytes <= bytes_left or not self._thread.is_alive(), seconds
            )

    def drop(self) -> None:
        """Forget what is queued; the matrix in hand is finished."""
        with self._changed:
            self._waiting_bytes -= sum(size for _, _, size in self._jobs)
            self._jobs.clear()
            self._changed.notify_all()

    def close(self, seconds: float | None = None) -> None:
        """Finish what is queued and end the thread.

        Args:
            seconds: how long to wait for it; a decomposition cannot be interrupted, and ends with the process.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _work(self, started: threading.Event) -> None:
        torch.set_num_threads(1)
        # A thread takes up the process's limit when it first asks; let that be now, before the limit is set back.
        torch.get_num_threads()
        started.set()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs) or self._stopping)
                if not self._jobs:
                    self._ended_seconds = time.thread_time()
                    return
                key, matrix, size = self._jobs.popleft()
            with torch.no_grad():
                self._compute(key, matrix)
            # Let go of the matrix before its bytes count as free.
            del matrix
            with self._changed:
                self._waiting_bytes -= size
                self._changed.notify_all()
