"""What recording costs: CPU seconds of every thread that works for the recorder, beside the wall time of the steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class RecorderCost:
    """Totals since the start of training, and since the last metrics row."""

    background: Callable[[], float] = lambda: 0.0
    """CPU seconds so far of the threads that work beside the training thread."""
    foreground_seconds: float = 0.0
    """CPU seconds spent inside the recorder while the training thread waited for it."""
    step_seconds: float = 0.0
    """Wall seconds of all steps so far."""
    steps: int = 0
    _reported: tuple[float, float] = (0.0, 0.0)
    _step_began: float | None = field(default=None, repr=False)
    _inside: bool = field(default=False, repr=False)

    @property
    def seconds(self) -> float:
        """CPU seconds of all recorder threads so far."""
        return self.foreground_seconds + self.background()

    @property
    def fraction(self) -> float:
        """CPU seconds of the recorder over wall seconds of the steps; nan before the first step has ended."""
        return self.seconds / self.step_seconds if self.step_seconds > 0 else float("nan")

    @contextmanager
    def foreground(self) -> Iterator[None]:
        """Count this thread's CPU time inside the block, once if blocks nest.

        The recorder works on one thread of torch (`one_thread`), so this thread's clock misses nothing; the process's
        would add what the trainer's own helper threads spin after its last kernel.
        """
        if self._inside:
            yield
            return
        self._inside = True
        began = time.thread_time()
        try:
            yield
        finally:
            self._inside = False
            self.foreground_seconds += time.thread_time() - began

    def step_begins(self) -> None:
        """Start the wall clock of a step; a step ends where the next one begins."""
        self.step_ends()
        self._step_began = time.perf_counter()

    def step_ends(self) -> None:
        """Stop the wall clock of the step that runs, if one does."""
        if self._step_began is not None:
            self.step_seconds += time.perf_counter() - self._step_began
            self.steps += 1
            self._step_began = None

    def since_last_row(self) -> tuple[float, float]:
        """Return (recorder's CPU seconds, wall seconds of steps) since the last call."""
        running = time.perf_counter() - self._step_began if self._step_began is not None else 0.0
        totals = self.seconds, self.step_seconds + running
        since = totals[0] - self._reported[0], totals[1] - self._reported[1]
        self._reported = totals
        return since


def thread_seconds(thread: threading.Thread) -> float:
    """Return the CPU seconds of a live thread; 0 where the platform cannot tell, or the thread has ended."""
    if thread.ident is None or not thread.is_alive() or not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:
        return 0.0
