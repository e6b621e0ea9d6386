"""What the Ray pool does by itself, without Ray."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from grpodyn.errors import UsageError
from grpodyn.studies import ray_pool
from grpodyn.studies.child import Child


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child("a-s1", tmp_path / "a-s1", tmp_path / "a.yaml", tmp_path / "a-s1.log")


class Process:
    """Ends when it has been sent `needs` signals."""

    def __init__(self, needs: int) -> None:
        self.needs, self.sent = needs, []
        self.returncode = 130

    def poll(self) -> int | None:
        return self.returncode if len(self.sent) >= self.needs else None

    def send_signal(self, number: int) -> None:
        self.sent.append(number)


def test_what_is_asked_to_end_while_it_is_queued_never_starts(child, monkeypatch):
    monkeypatch.setattr(ray_pool, "start", lambda *_: pytest.fail("it was started"))
    ray_pool.stop_files(child)[0].touch()
    assert ray_pool.run_as_task(child, 1) == (130, 0.0)


def test_each_further_request_is_more_urgent(child, monkeypatch):
    process = Process(needs=3)
    monkeypatch.setattr(ray_pool, "start", lambda *_: process)
    monkeypatch.setattr(ray_pool.time, "sleep", lambda _: [stop.touch() for stop in ray_pool.stop_files(child)])
    code, _ = ray_pool.run_as_task(child, 1)
    assert code == 130
    assert process.sent == [signal.SIGINT, signal.SIGINT, signal.SIGKILL]


class Ray:
    """Starts as badly as it is told to."""

    def __init__(self, error: Exception) -> None:
        self.error, self.ended = error, False

    def init(self, **_: object) -> None:
        raise self.error

    def shutdown(self) -> None:
        self.ended = True
        raise RuntimeError("nor does it end")


@pytest.mark.parametrize(
    "error",
    [
        Exception("The current node timed out during startup."),
        subprocess.TimeoutExpired("raylet", 30),
        OSError(28, "No space left on device"),
        TimeoutError(),
    ],
)
def test_a_ray_that_does_not_start_is_an_error_with_what_to_do(error, monkeypatch):
    ray = Ray(error)
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: ray)
    with pytest.raises(UsageError) as caught:
        ray_pool.RayPool(None, 1, 0, None)
    said = str(caught.value)
    assert type(error).__name__ in said
    assert "begun nothing" in said
    assert "leave --on ray out" in said
    assert ray.ended, "what it has started is ended"


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: Ray(ConnectionError("no GCS")))
    with pytest.raises(UsageError, match=r"cannot be reached at 10\.0\.0\.1:6379 \(ConnectionError: no GCS\)"):
        ray_pool.RayPool("10.0.0.1:6379", 1, 0, None)
