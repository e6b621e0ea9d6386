"""Spectral sweeps: every matrix once, in bounded memory, spread over steps where it does not fit into one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from grpodyn.probe import FloatArray, Need
from grpodyn.recording.spectra_worker import Matrix, SpectraWorker
from grpodyn.spectra.stacks import pooled, weighted_mean

Subject = frozenset[Need]
"""What a matrix is, by the needs of the probes that look at it: W_t − W_0, or W_t − W_{t−1}."""


@dataclass(frozen=True)
class Found:
    """What the spectral probes say of one matrix."""

    values: Mapping[str, float | FloatArray] = field(default_factory=dict)
    """Value by probe; a probe is missing where it has none."""
    weight: float = 0.0
    """‖·‖_F²: how much the matrix counts among those of a stack."""


@dataclass(frozen=True)
class Candidate:
    """A matrix that has a spectrum, or a stack of them that is copied as one."""

    row: int
    """Place on the tensor axis; the experts of a stack share it."""
    size: int
    """Bytes of a snapshot."""
    snapshot: Callable[[], Matrix | None]
    """Copies the matrix as it is now; None where it is not known."""
    subject: Subject


@dataclass
class Sweep:
    """One row of the spectra group in the making."""

    step: int
    pending: deque[Candidate]
    taken: int = 0
    done: int = 0
    measured_step: dict[int, int] = field(default_factory=dict)
    """By row, the step at which its last matrix was copied."""
    values: dict[tuple[int, Subject], list[Found]] = field(default_factory=dict)
    """By row and subject, what was found of each of its matrices."""

    @property
    def complete(self) -> bool:
        """Whether every matrix has been taken and computed."""
        return not self.pending and self.done == self.taken

    def cut(self) -> None:
        """Give up what has not been taken, and with it the rows that it leaves in part."""
        for candidate in self.pending:
            self.values.pop((candidate.row, candidate.subject), None)
        self.pending.clear()
        rows = {row for row, _ in self.values}
        self.measured_step = {row: step for row, step in self.measured_step.items() if row in rows}


class Sweeps:
    """Decides which matrix is copied at which step, and hands complete sweeps on.

    Args:
        candidates: the matrices, in order.
        limit: bytes copied in a step, and bytes waiting at any time.
        compute: turns a matrix (or a stack) into values; runs on the worker's thread and must not raise.
        emit: receives each sweep that is done, on the training thread.
        meanwhile: called now and then while the training thread waits for the worker.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        limit: int,
        compute: Callable[[Candidate, Matrix], list[Found]],
        emit: Callable[[Sweep], None],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self.skipped = 0
        """Sweeps that were due while an earlier one was still open."""
        self._candidates = list(candidates)
        self._limit = limit
        self._compute = compute
        self._emit = emit
        self._meanwhile = meanwhile
        self._open: Sweep | None = None
        self._lock = threading.Lock()
        self._worker: SpectraWorker[Candidate] = SpectraWorker(self._work)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the worker."""
        return self._worker.cpu_seconds

    def pending(self) -> set[Subject]:
        """Return what the open sweep still has to take."""
        return {candidate.subject for candidate in self._open.pending} if self._open is not None else set()

    def advance(self, step: int, *, due: Collection[Subject]) -> bool:
        """Take what fits of the open sweep at `step`, opening one if any is due; return whether a due one is skipped.

        Args:
            step: the step whose weights are there now.
            due: the subjects of the sweep that begins at this step.
        """
        self._hand_on()
        skipped = bool(due) and self._open is not None
        self.skipped += skipped
        if due and self._open is None:
            self._open = Sweep(step, deque(c for c in self._candidates if c.subject in due))
        if self._open is not None:
            self._take(self._open, step, wait=False)
        return skipped

    def finish(self, step: int) -> None:
        """Measure every matrix at `step`, waiting for the worker; an open sweep is completed first."""
        self._hand_on()
        if self._open is not None:
            self._drain(self._open, step)
        if self._candidates:
            self._open = Sweep(step, deque(self._candidates))
            self._drain(self._open, step)

    def close(self) -> None:
        """Hand on what has been measured of an open sweep, and end the worker."""
        self._worker.close()
        if self._open is not None:
            self._open.cut()
            if self._open.values:
                self._emit(self._open)
        self._open = None

    def _drain(self, sweep: Sweep, step: int) -> None:
        self._take(sweep, step, wait=True)
        self._worker.wait(meanwhile=self._meanwhile)
        self._hand_on()

    def _take(self, sweep: Sweep, step: int, *, wait: bool) -> None:
        copied = 0
        while sweep.pending:
            size = sweep.pending[0].size
            # One matrix may be larger than the limit: it is taken alone.
            if wait:
                self._worker.wait(max(0, self._limit - size), self._meanwhile)
            elif (copied and copied + size > self._limit) or self._worker.waiting_bytes > max(0, self._limit - size):
                return
            candidate = sweep.pending.popleft()
            matrix = candidate.snapshot()
            if matrix is None:
                continue
            sweep.measured_step[candidate.row] = step
            sweep.taken += 1
            copied += size
            self._worker.submit(candidate, matrix, size)

    def _hand_on(self) -> None:
        if self._open is None:
            return
        with self._lock:
            complete = self._open.complete
        if complete:
            sweep, self._open = self._open, None
            if sweep.values:
                self._emit(sweep)

    def _work(self, candidate: Candidate, matrix: Matrix) -> None:
        found = self._compute(candidate, matrix)
        # Jobs are done in order and a sweep is handed on only when all of its jobs are: the open one is theirs.
        with self._lock:
            if self._open is not None:
                self._open.values.setdefault((candidate.row, candidate.subject), []).extend(found)
                self._open.done += 1


def column(sweep: Sweep, name: str, subject: Subject, rows: int, k: int | None) -> FloatArray:
    """Return one probe's values over the tensor axis, shape (rows,) or (rows, k); nan where not measured."""
    values = np.full((rows,) if k is None else (rows, k), np.nan)
    for (row, seen), matrices in sweep.values.items():
        if seen != subject:
            continue
        found = [matrix.values.get(name) for matrix in matrices]
        known = [np.asarray(value, dtype=np.float64) for value in found if value is not None]
        if len(known) < len(found):
            continue
        if k is None:
            values[row] = weighted_mean(known, [matrix.weight for matrix in matrices])
        else:
            leading = pooled([value[:k] for value in known])
            values[row, : len(leading)] = leading
    return values
