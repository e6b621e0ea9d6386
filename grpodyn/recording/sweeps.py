"""Spectral sweeps: every matrix once, in bounded memory, spread over steps where it does not fit into one."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from grpodyn.probe import FloatArray, Need
from grpodyn.recording.patience import Patience
from grpodyn.recording.spectra_worker import Matrix, SpectraWorker
from grpodyn.spectra.stacks import pooled, weighted_mean

Subject = frozenset[Need]
"""What a matrix is, by the needs of the probes that look at it: W_t − W_0, or W_t − W_{t−1}."""


_FIRST: Subject = frozenset({Need.DELTA})
_OPEN_SHARE = 0.5
"""Share of the patience that a sweep which is open at the end may use up."""
_LAST_MATRIX_SECONDS = 5.0
"""How long to wait for the matrix in hand once patience is over."""


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
    in_hand: Counter[tuple[int, Subject]] = field(default_factory=Counter)
    """By row and subject, the matrices that were taken and are not computed yet."""

    @property
    def complete(self) -> bool:
        """Whether every matrix has been taken and computed."""
        return not self.pending and self.done == self.taken

    def cut(self) -> set[tuple[int, Subject]]:
        """Give up what has not been computed, and with it the rows that it leaves in part; return these."""
        lost = {(candidate.row, candidate.subject) for candidate in self.pending} | set(+self.in_hand)
        for key in lost:
            self.values.pop(key, None)
        self.pending.clear()
        rows = {row for row, _ in self.values}
        self.measured_step = {row: step for row, step in self.measured_step.items() if row in rows}
        return lost


class Sweeps:
    """Decides which matrix is copied at which step, and hands complete sweeps on.

    Args:
        candidates: the matrices, in order.
        limit: bytes copied in a step, and bytes waiting at any time.
        compute: turns a matrix (or a stack) into values; runs on the worker's thread and must not raise.
        emit: receives each sweep that is done, on the training thread.
        patience: how long the training thread waits for the last sweep.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        limit: int,
        compute: Callable[[Candidate, Matrix], list[Found]],
        emit: Callable[[Sweep], None],
        patience: Patience,
    ) -> None:
        self.skipped = 0
        """Sweeps that were due while an earlier one was still open."""
        self._candidates = list(candidates)
        self._limit = limit
        self._compute = compute
        self._emit = emit
        self._patience = patience
        self._gave_up = False
        self._open: Sweep | None = None
        self._lock = threading.Lock()
        self._worker: SpectraWorker[tuple[Sweep, Candidate]] = SpectraWorker(self._work)

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
            self._take(self._open, step)
        return skipped

    def finish(self, step: int) -> set[tuple[int, Subject]]:
        """Measure every matrix at `step`, waiting for the worker; an open sweep is completed first.

        Returns:
            Rows, with their subjects, that patience did not last for.

        Raises:
            KeyboardInterrupt: whoever waits is interrupted; what has been measured is handed on first.
        """
        self._hand_on()
        self._patience.begin()
        if self._open is not None:
            self._drain(self._open, step, _OPEN_SHARE)
        if not self._candidates:
            return set()
        self._open = Sweep(step, deque(in_turns(self._candidates)))
        return self._drain(self._open, step)

    def close(self) -> None:
        """Hand on what has been measured of an open sweep, and end the worker."""
        self._worker.close(_LAST_MATRIX_SECONDS if self._gave_up else None)
        if self._open is not None:
            self._cut(self._open)

    def _drain(self, sweep: Sweep, step: int, share: float = 1.0) -> set[tuple[int, Subject]]:
        def lasts() -> bool:
            done, all_of_it = sweep.done, sweep.taken + len(sweep.pending)
            return self._patience.lasts(f"spectra of step {step}: {done} of {all_of_it} matrices", share)

        complete = False
        try:
            complete = self._take(sweep, step, lasts) and self._worker.wait(lasts=lasts)
        finally:
            if not complete:
                self._gave_up = True
                self._worker.drop()
                lost = self._cut(sweep)
        if complete:
            self._hand_on()
            return set()
        return lost

    def _cut(self, sweep: Sweep) -> set[tuple[int, Subject]]:
        with self._lock:
            self._open = None
            lost = sweep.cut()
        if sweep.values:
            self._emit(sweep)
        return lost

    def _take(self, sweep: Sweep, step: int, lasts: Callable[[], bool] | None = None) -> bool:
        """Take matrices as far as they fit, or all of them while patience lasts; return whether it took all."""
        copied = 0
        while sweep.pending:
            size = sweep.pending[0].size
            # One matrix may be larger than the limit: it is taken alone.
            room = max(0, self._limit - size)
            if lasts is not None:
                if not (lasts() and self._worker.wait(room, lasts)):
                    return False
            elif (copied and copied + size > self._limit) or self._worker.waiting_bytes > room:
                return False
            candidate = sweep.pending.popleft()
            matrix = candidate.snapshot()
            if matrix is None:
                continue
            sweep.measured_step[candidate.row] = step
            with self._lock:
                sweep.taken += 1
                sweep.in_hand[candidate.row, candidate.subject] += 1
            copied += size
            self._worker.submit((sweep, candidate), matrix, size)
        return True

    def _hand_on(self) -> None:
        if self._open is None:
            return
        with self._lock:
            complete = self._open.complete
        if complete:
            sweep, self._open = self._open, None
            if sweep.values:
                self._emit(sweep)

    def _work(self, job: tuple[Sweep, Candidate], matrix: Matrix) -> None:
        sweep, candidate = job
        found = self._compute(candidate, matrix)
        key = candidate.row, candidate.subject
        with self._lock:
            # What was in hand when its sweep was cut belongs to none.
            if sweep is self._open:
                sweep.values.setdefault(key, []).extend(found)
                sweep.in_hand[key] -= 1
                sweep.done += 1


def in_turns(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in an order of which every beginning is spread over the whole model.

    The displacement comes before what else is asked for, and the matrices of a stack stay together.
    """
    subjects = sorted({candidate.subject for candidate in candidates}, key=lambda own: (own != _FIRST, sorted(own)))
    rows = sorted({candidate.row for candidate in candidates})
    bits = max(1, (len(rows) - 1).bit_length())
    # Places in the order of their reversed bits: 0, the middle, the quarters, the eighths …
    turns = {row: int(f"{place:0{bits}b}"[::-1], 2) for place, row in enumerate(rows)}
    return sorted(candidates, key=lambda own: (subjects.index(own.subject), turns[own.row]))


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
