"""Sweeps: bounded memory, every matrix once, the last step complete, late ones skipped and counted."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from grpodyn.probe import Need
from grpodyn.recording.patience import HURRIED_SECONDS, Patience
from grpodyn.recording.spectra_worker import SpectraWorker
from grpodyn.recording.sweeps import Candidate, Found, Sweeps, column, in_turns

DELTA = frozenset({Need.DELTA})


class Bench:
    """Sweeps over matrices of 100 bytes that hold the step they were copied at; the worker can be held back."""

    def __init__(self, matrices: int, limit: int) -> None:
        self.step = 0
        self.gate = threading.Event()
        self.gate.set()
        self.emitted = []
        self.peak = 0
        candidates = [Candidate(row, 100, self._snapshot, DELTA) for row in range(matrices)]
        self.patience = Patience(60.0)
        self.sweeps = Sweeps(candidates, limit, self._compute, self.emitted.append, self.patience)

    def _snapshot(self):
        self.peak = max(self.peak, self.sweeps._worker.waiting_bytes + 100)
        return torch.full((1, 1), float(self.step))

    def _compute(self, candidate, matrix):
        self.gate.wait()
        return [Found({"value": float(matrix[0, 0]) + candidate.row / 100})]

    def advance(self, step, due=False):
        self.step = step
        return self.sweeps.advance(step, due=[DELTA] if due else [])

    def settle(self):
        self.sweeps._worker.wait()


def test_a_sweep_that_fits_is_measured_at_its_step():
    bench = Bench(3, limit=1000)
    assert not bench.advance(1, due=True)
    bench.settle()
    bench.advance(2)
    (sweep,) = bench.emitted
    assert sweep.step == 1
    assert sweep.measured_step == {0: 1, 1: 1, 2: 1}
    assert column(sweep, "value", DELTA, 4, None).tolist()[:3] == [1.0, 1.01, 1.02]
    assert np.isnan(column(sweep, "value", DELTA, 4, None)[3])
    bench.sweeps.close()


def test_what_does_not_fit_is_taken_in_later_steps():
    bench = Bench(5, limit=200)
    for step in range(1, 5):
        bench.advance(step, due=step == 1)
        bench.settle()
    (sweep,) = bench.emitted
    assert sweep.measured_step == {0: 1, 1: 1, 2: 2, 3: 2, 4: 3}
    assert bench.peak <= 200
    bench.sweeps.close()


def test_a_matrix_larger_than_the_limit_is_taken_alone():
    bench = Bench(2, limit=10)
    bench.advance(1, due=True)
    bench.settle()
    bench.advance(2)
    bench.settle()
    bench.advance(3)
    assert bench.emitted[0].measured_step == {0: 1, 1: 2}
    bench.sweeps.close()


def test_a_late_sweep_is_skipped_and_counted_not_queued():
    bench = Bench(3, limit=1000)
    bench.gate.clear()
    assert not bench.advance(1, due=True)
    assert bench.advance(2, due=True)
    assert bench.advance(3, due=True)
    assert bench.sweeps.skipped == 2
    bench.gate.set()
    bench.settle()
    assert not bench.advance(4, due=True)
    bench.settle()
    bench.advance(5)
    assert [sweep.step for sweep in bench.emitted] == [1, 4]
    bench.sweeps.close()


def test_the_last_step_is_complete_and_an_open_sweep_is_completed_first():
    bench = Bench(5, limit=200)
    bench.advance(1, due=True)
    bench.step = 9
    bench.sweeps.finish(9)
    first, last = bench.emitted
    assert first.measured_step == {0: 1, 1: 1, 2: 9, 3: 9, 4: 9}
    assert last.measured_step == dict.fromkeys(range(5), 9)
    assert last.step == 9
    assert bench.peak <= 200
    bench.sweeps.close()
    assert len(bench.emitted) == 2


class Clock:
    """Time that passes with each look at it."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self._seconds
        return self.now


def test_what_there_is_no_time_for_is_left_out_and_named():
    """The worker is held in the third matrix: two rows are known, and no thread waits for the others."""
    bench = Bench(6, limit=200)
    held = threading.Event()
    compute = bench.sweeps._compute

    def slow(candidate, matrix):
        if candidate.row == 1:
            held.wait()
        return compute(candidate, matrix)

    bench.sweeps._compute = slow
    bench.sweeps._candidates = (
        bench.sweeps._candidates[:1] + bench.sweeps._candidates[2:] + bench.sweeps._candidates[1:2]
    )
    bench.patience._clock = Clock(8.0)
    bench.step = 9
    lost = bench.sweeps.finish(9)
    assert (1, DELTA) in lost
    (sweep,) = bench.emitted
    assert sweep.step == 9
    assert set(sweep.values) | lost == {(row, DELTA) for row in range(6)}
    assert not set(sweep.values) & lost
    assert set(sweep.measured_step) == {row for row, _ in sweep.values}
    assert bench.sweeps._worker.waiting_bytes <= 100
    held.set()
    bench.sweeps.close()
    assert len(bench.emitted) == 1, "what came too late belongs to no sweep"


def test_no_time_at_all_measures_nothing_and_waits_for_nothing():
    bench = Bench(3, limit=1000)
    bench.patience.seconds = 0.0
    assert bench.sweeps.finish(1) == {(row, DELTA) for row in range(3)}
    bench.sweeps.close()
    assert bench.emitted == []


def test_an_interrupt_passes_on_and_what_was_measured_is_handed_on():
    bench = Bench(4, limit=100)

    def interrupted(what: str, share: float = 1.0) -> bool:
        if what.startswith("spectra of step 2: 2 of 4"):
            raise KeyboardInterrupt
        return True

    bench.patience.lasts = interrupted
    bench.step = 2
    with pytest.raises(KeyboardInterrupt):
        bench.sweeps.finish(2)
    bench.sweeps.close()
    (sweep,) = bench.emitted
    assert len(sweep.values) == 2


def test_a_stop_leaves_seconds_of_minutes():
    clock = Clock(0.0)
    patience = Patience(120.0, clock=clock)
    patience.begin()
    clock.now = 50.0
    assert patience.lasts("spectra")
    patience.hurry()
    assert patience.lasts("spectra")
    clock.now += HURRIED_SECONDS
    assert not patience.lasts("spectra")
    assert "stop was asked for" in patience.reason
    assert "final_seconds (120)" in patience.reason


def test_long_waits_say_what_they_wait_for(caplog):
    clock, called = Clock(0.0), []
    patience = Patience(120.0, lambda: called.append(clock.now), clock)
    with caplog.at_level("INFO", logger="grpodyn"):
        for clock.now in range(0, 60, 5):
            patience.lasts("spectra of step 9: 3 of 40 matrices")
    assert [record.getMessage() for record in caplog.records] == [
        f"spectra of step 9: 3 of 40 matrices, {second} s of at most 120" for second in (15, 30, 45)
    ]
    assert called == [20, 40]


def test_every_beginning_of_the_last_sweep_is_spread_over_the_model():
    step = frozenset({Need.STEP})
    rows = [row for row in range(0, 24, 2) for _ in range(2)]
    candidates = [Candidate(row, 1, torch.Tensor, subject) for subject in (step, DELTA) for row in rows]
    order = in_turns(candidates)
    assert [own.subject for own in order] == [DELTA] * 24 + [step] * 24
    firsts = [own.row for own in order[:24:2]]
    assert firsts == [own.row for own in order[1:24:2]], "the matrices of a stack stay together"
    assert sorted(firsts) == list(range(0, 24, 2))
    for taken in (4, 6, 8):
        gaps = np.diff([*sorted(firsts[:taken]), 24])
        assert gaps.max() <= 24 / taken * 2


def test_closing_hands_on_what_was_measured():
    bench = Bench(5, limit=200)
    bench.advance(1, due=True)
    bench.sweeps.close()
    assert bench.emitted[0].measured_step == {0: 1, 1: 1}


def test_singular_values_are_cut_or_padded():
    bench = Bench(1, limit=1000)
    bench.sweeps._compute = lambda candidate, matrix: [Found({"s": np.array([3.0, 2.0, 1.0])})]
    bench.sweeps.finish(1)
    assert column(bench.emitted[0], "s", DELTA, 1, 2).tolist() == [[3.0, 2.0]]
    padded = column(bench.emitted[0], "s", DELTA, 1, 4)
    assert padded[0, :3].tolist() == [3.0, 2.0, 1.0]
    assert np.isnan(padded[0, 3])
    bench.sweeps.close()


def test_the_matrices_of_a_stack_share_a_row():
    """Ranks 4 (weight 1) and 2 (weight 3): (4 + 3·2)/4 = 2.5. σ: sqrt((1² + 7²)/2) = 5, sqrt((1 + 1)/2) = 1."""
    bench = Bench(2, limit=1000)
    found = [Found({"rank": 4.0, "s": np.array([1.0, 1.0])}, 1.0), Found({"rank": 2.0, "s": np.array([7.0, 1.0])}, 3.0)]
    bench.sweeps._compute = lambda candidate, matrix: found if candidate.row == 0 else [found[0], Found()]
    bench.sweeps.finish(1)
    assert column(bench.emitted[0], "rank", DELTA, 2, None)[0] == 2.5
    assert column(bench.emitted[0], "s", DELTA, 2, 3)[0, :2].tolist() == [5.0, 1.0]
    assert np.isnan(column(bench.emitted[0], "rank", DELTA, 2, None)[1]), (
        "an expert without a spectrum leaves the stack none"
    )
    bench.sweeps.close()


def test_half_a_stack_is_not_handed_on():
    bench = Bench(0, limit=200)
    first, second = (Candidate(row, 100, bench._snapshot, DELTA) for row in (0, 1))
    bench.sweeps._candidates = [first, second, second]
    bench.advance(1, due=True)
    bench.sweeps.close()
    assert bench.emitted[0].measured_step == {0: 1}
    assert list(bench.emitted[0].values) == [(0, DELTA)]


def test_a_sweep_takes_what_is_due_and_says_what_it_still_has_to_take():
    bench = Bench(2, limit=200)
    step = frozenset({Need.STEP})
    bench.sweeps._candidates += [Candidate(row, 100, bench._snapshot, step) for row in (0, 1)]
    bench.advance(1, due=True)
    assert bench.sweeps.pending() == set()
    bench.settle()
    bench.step = 2
    bench.sweeps.advance(2, due=[step, DELTA])
    assert bench.sweeps.pending() == {step}
    bench.settle()
    bench.advance(3)
    bench.settle()
    bench.advance(4)
    first, second = bench.emitted
    assert set(first.values) == {(0, DELTA), (1, DELTA)}
    assert set(second.values) == {(0, DELTA), (1, DELTA), (0, step), (1, step)}
    # One array a probe: what was seen of the displacement is not what was seen of the step.
    assert column(second, "value", DELTA, 2, None).tolist() == [2.0, 2.01]
    assert column(second, "value", step, 2, None).tolist() == [3.0, 3.01]
    bench.sweeps.close()


def test_no_candidates_no_rows():
    bench = Bench(0, limit=100)
    bench.advance(1, due=True)
    bench.sweeps.finish(2)
    bench.sweeps.close()
    assert bench.emitted == []


def test_the_worker_computes_with_one_thread_and_leaves_the_others_theirs():
    threads = torch.get_num_threads()
    seen = []

    def compute(key, matrix):
        # A large product first: a thread takes up the process's limit where it first works in parallel.
        torch.ones(600, 600) @ torch.ones(600, 600)
        seen.append((key, torch.get_num_threads(), torch.is_grad_enabled()))

    worker = SpectraWorker(compute)
    worker.submit(7, torch.ones(2), 8)
    worker.wait()
    assert seen == [(7, 1, False)]
    assert torch.get_num_threads() == threads
    from_a_new_thread = []
    thread = threading.Thread(target=lambda: from_a_new_thread.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert from_a_new_thread == [threads]
    worker.close()
    assert worker.cpu_seconds > 0
    assert worker.waiting_bytes == 0
