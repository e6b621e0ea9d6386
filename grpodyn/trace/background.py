"""One thread that does all file work, fed through a bounded queue."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from grpodyn.trace.lock import HEARTBEAT_SECONDS

QUEUE_BYTES = 64 * 1024 * 1024
"""What waits for the disk at most; beyond it `put` waits, and in the end drops."""
PATIENCE_SECONDS = 30.0
"""How long `put` waits for room, once, before it drops until there is room again."""
FLUSH_DELAY_SECONDS = 0.9
"""From the first change to its flush, so that the rows of one step share one."""
FLUSH_COST_FACTOR = 50.0
"""A flush that took c seconds is not followed by another for 50 c: at most 2 % of a core."""


class Files(Protocol):
    """What the thread works on. Every method may raise OSError."""

    def flush(self) -> None:
        """Commit every change."""

    def beat(self) -> None:
        """Show that the writer lives."""

    def note_dropped(self, count: int) -> None:
        """Write down that `count` rows or events were dropped."""

    def give_up(self, reason: str) -> None:
        """Leave word of why writing stops; raises nothing."""


@dataclass(frozen=True)
class _Job:
    run: Callable[[], None]
    size: int
    changes: bool


class Background:
    """Runs jobs in order on its thread and flushes when due; after an OSError it does nothing any more."""

    def __init__(self, files: Files) -> None:
        self.failed: str | None = None
        """Why work has stopped; None while it goes on."""
        self.cpu_seconds = 0.0
        """CPU seconds of the thread so far."""
        self._files = files
        self._condition = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._queued_bytes = 0
        self._patience = PATIENCE_SECONDS
        self._dropped = 0
        self._stopping = False
        # Owned by the thread.
        self._changed_at: float | None = None
        self._earliest_flush = 0.0
        self._finished = False
        self._thread = threading.Thread(target=self._work, name="grpodyn-writer", daemon=True)
        self._thread.start()

    def accepts(self) -> bool:
        """Whether `put` can still take jobs."""
        return self.failed is None and not self._stopping

    def put(self, run: Callable[[], None], size: int = 0, changes: bool = True) -> bool:
        """Queue a job that holds `size` bytes; return False if it was dropped.

        Waits while the queue is full, at most `PATIENCE_SECONDS`. When the disk hangs for longer, jobs are dropped
        without waiting until it has caught up, and their number is noted: training goes on.
        """
        with self._condition:
            if not self.accepts():
                return False
            fits = self._condition.wait_for(lambda: not self.accepts() or self._has_room(size), self._patience)
            if not self.accepts():
                return False
            if not fits:
                self._patience = 0.0
                self._dropped += 1
                return False
            self._patience = PATIENCE_SECONDS
            self._add(_Job(run, size, changes))
            return True

    def flush(self, timeout: float) -> bool:
        """Return True when all jobs given so far are done and committed; False after `timeout` seconds or a failure."""
        done = threading.Event()

        def commit() -> None:
            self._flush()
            done.set()

        if not self.put(commit, changes=False):
            return False
        deadline = time.monotonic() + timeout
        while not done.wait(0.1):
            if not self._thread.is_alive() or time.monotonic() > deadline:
                return done.is_set()
        return True

    def stop(self, last: Callable[[], None], timeout: float) -> None:
        """Run `last` after all queued jobs and end the thread."""

        def finish() -> None:
            last()
            self._finished = True

        with self._condition:
            if self.accepts():
                self._add(_Job(finish, 0, changes=False))
            self._stopping = True
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.failed = f"the disk did not answer for {timeout:.0f} s"

    def disown(self) -> None:
        """Forget everything in a forked child: its copy has no thread, and its condition may be held for ever."""
        self._condition = threading.Condition()
        self.failed = "this process is a fork of the one that records"

    def _add(self, job: _Job) -> None:
        self._jobs.append(job)
        self._queued_bytes += job.size
        self._condition.notify_all()

    def _has_room(self, size: int) -> bool:
        # A job larger than the whole queue is taken when the queue is empty.
        return self._queued_bytes == 0 or self._queued_bytes + size <= QUEUE_BYTES

    # On the thread.

    def _work(self) -> None:
        try:
            while not self._finished:
                self._turn()
        except OSError as error:
            self.failed = f"{type(error).__name__}: {error}"
            self._files.give_up(self.failed)
        finally:
            with self._condition:
                if not self._finished and self.failed is None:
                    self.failed = "the writer's thread died of an unexpected error"
                self._jobs.clear()
                self._queued_bytes = 0
                self._condition.notify_all()

    def _turn(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: bool(self._jobs), self._seconds_to_wait())
            jobs = list(self._jobs)
            self._jobs.clear()
            dropped, self._dropped = self._dropped, 0
        for job in jobs:
            job.run()
            if job.changes and self._changed_at is None:
                self._changed_at = time.monotonic()
            with self._condition:
                self._queued_bytes -= job.size
                self._condition.notify_all()
        if dropped:
            self._files.note_dropped(dropped)
        if self._changed_at is not None and not self._finished and time.monotonic() >= self._due():
            self._flush()
        if not self._finished:
            self._files.beat()
        self.cpu_seconds = time.thread_time()

    def _due(self) -> float:
        return max((self._changed_at or 0.0) + FLUSH_DELAY_SECONDS, self._earliest_flush)

    def _seconds_to_wait(self) -> float:
        if self._changed_at is None:
            return HEARTBEAT_SECONDS
        return min(HEARTBEAT_SECONDS, max(0.0, self._due() - time.monotonic()))

    def _flush(self) -> None:
        started = time.monotonic()
        self._files.flush()
        ended = time.monotonic()
        self._changed_at = None
        self._earliest_flush = ended + FLUSH_COST_FACTOR * (ended - started)
