"""What the Ray pool does by itself, without Ray."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

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
