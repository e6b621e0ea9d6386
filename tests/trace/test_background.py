"""The queue is bounded: a slow disk makes callers wait, a hanging one makes them drop, and either is noted."""

import threading

import pytest

from grpodyn.trace import background
from grpodyn.trace.background import Background


class Files:
    """Counts what it is asked to do."""

    def __init__(self) -> None:
        self.flushes = 0
        self.dropped = 0
        self.given_up: str | None = None

    def flush(self) -> None:
        self.flushes += 1

    def beat(self) -> None: ...

    def note_dropped(self, count: int) -> None:
        self.dropped += count

    def give_up(self, reason: str) -> None:
        self.given_up = reason


def test_a_hanging_disk_costs_one_wait_and_then_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUEUE_BYTES", 100)
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.05)
    files, hang = Files(), threading.Event()
    queue = Background(files)
    done: list[int] = []
    queue.put(hang.wait)
    taken = [queue.put(lambda i=i: done.append(i), size=40) for i in range(10)]
    assert taken == [True, True] + [False] * 8
    hang.set()
    assert queue.flush(10)
    assert queue.put(lambda: done.append(10), size=40)
    queue.stop(lambda: None, 10)
    assert done == [0, 1, 10]
    assert files.dropped == 8
    assert queue.failed is None


def test_a_slow_disk_makes_the_caller_wait_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUEUE_BYTES", 100)
    queue = Background(Files())
    done: list[int] = []
    pause = threading.Event()

    def slow(i: int) -> None:
        pause.wait(0.002)
        done.append(i)

    for i in range(50):
        assert queue.put(lambda i=i: slow(i), size=60)
    queue.stop(lambda: None, 10)
    assert done == list(range(50))


def test_a_job_larger_than_the_queue_is_taken_when_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUEUE_BYTES", 10)
    queue = Background(Files())
    assert queue.put(lambda: None, size=1000)
    queue.stop(lambda: None, 10)


def test_an_os_error_stops_the_work_and_wakes_everybody() -> None:
    files = Files()
    queue = Background(files)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    queue.put(fail)
    assert not queue.flush(10)
    assert queue.failed == files.given_up == "OSError: [Errno 5] Input/output error"
    assert not queue.put(lambda: None)
    queue.stop(lambda: None, 10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # The thread dies on purpose.
def test_a_bug_in_the_thread_is_said_and_does_not_hang_callers() -> None:
    queue = Background(Files())
    queue.put(lambda: 1 / 0)
    assert not queue.flush(10)
    assert queue.failed == "the writer's thread died of an unexpected error"
    queue.stop(lambda: None, 10)


def test_a_disk_that_never_answers_does_not_hang_the_end() -> None:
    queue, hang = Background(Files()), threading.Event()
    queue.put(hang.wait)
    assert not queue.flush(0.01)
    queue.stop(lambda: None, 0.01)
    assert queue.failed == "the disk did not answer for 0 s"
    hang.set()
