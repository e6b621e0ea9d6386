"""Processes on this machine, with a small script in place of a training."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpodyn.studies import child as child_module
from grpodyn.studies import pool as pool_module
from grpodyn.studies.child import Child, last_words, outcome, start
from grpodyn.studies.pool import LocalPool
from grpodyn.studies.slots import Slot
from grpodyn.trace.manifest import Manifest

SCRIPT = """
import signal, sys, time
asked = 0
def ask(*_):
    global asked
    asked += 1
signal.signal(signal.SIGINT, ask)
print("begins", flush=True)
while asked < int(sys.argv[1]):
    time.sleep(0.02)
sys.exit(int(sys.argv[2]))
"""


def child(folder: Path, name: str) -> Child:
    return Child(name, folder / name, folder / f"{name}.yaml", folder / "logs" / f"{name}.log")


def manifest(one: Child, status: str) -> None:
    one.run_dir.mkdir(parents=True, exist_ok=True)
    Manifest(status=status).write(one.run_dir)


@pytest.fixture
def pool(monkeypatch, tmp_path):
    """A pool of two slots; a run's name says how many requests it takes to end it, and with which code it ends."""

    def fake(one: Child, environment, cores):
        needs, code = one.name.split("-")
        one.log.parent.mkdir(exist_ok=True)
        with one.log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-S", "-c", SCRIPT, needs, code], stdout=log, process_group=0)

    monkeypatch.setattr(pool_module, "start", fake)
    found = LocalPool([Slot(0, (), 1, None), Slot(1, (), 1, None)])
    yield found
    found.close()


def begun(one: Child) -> None:
    for _ in range(500):
        if one.log.exists() and one.log.read_text():
            return
        time.sleep(0.02)
    pytest.fail("it did not begin")


def all_ended(pool: LocalPool) -> dict[str, tuple[str, str | None]]:
    found: dict[str, tuple[str, str | None]] = {}
    for _ in range(100):
        found |= {one.name: (how.state, how.error) for one, how in pool.ended(0.5)}
        if pool.free == 2:
            return found
    return found


def test_slots_are_taken_and_given_back(pool, tmp_path):
    done, failed = child(tmp_path, "0-0"), child(tmp_path, "0-7")
    manifest(done, "finished")
    pool.submit(done)
    assert pool.free == 1
    pool.submit(failed)
    assert pool.free == 0
    assert all_ended(pool) == {"0-0": ("done", None), "0-7": ("failed", "begins")}
    assert pool.free == 2


def test_a_request_ends_a_run_after_its_step_and_the_third_one_kills(pool, tmp_path):
    polite, deaf = child(tmp_path, "1-0"), child(tmp_path, "9-0")
    manifest(polite, "stopped_early")
    for one in (polite, deaf):
        pool.submit(one)
        begun(one)
    pool.interrupt()
    (first,) = [(one.name, how.state) for one, how in pool.ended(10)]
    assert first == ("1-0", "interrupted")
    pool.interrupt()
    assert list(pool.ended(0.3)) == []
    pool.interrupt()
    assert all_ended(pool) == {"9-0": ("interrupted", None)}


def test_nothing_is_left_when_a_pool_is_closed(pool, tmp_path):
    deaf = child(tmp_path, "9-0")
    pool.submit(deaf)
    begun(deaf)
    (_, _, process) = pool._running["9-0"]
    pool.close()
    assert process.poll() is not None


@pytest.mark.parametrize(
    ("status", "code", "asked", "state"),
    [
        ("finished", 0, False, "done"),
        ("finished", 0, True, "done"),
        ("stopped_early", 0, True, "interrupted"),
        # By its own rule: nobody asked.
        ("stopped_early", 0, False, "done"),
        ("running", 0, False, "failed"),
        (None, 0, False, "failed"),
        ("running", 130, True, "interrupted"),
        ("running", -9, True, "interrupted"),
        ("running", -9, False, "failed"),
        ("running", 2, False, "failed"),
    ],
)
def test_what_became_of_a_run(tmp_path, status, code, asked, state):
    one = child(tmp_path, "a")
    if status is not None:
        manifest(one, status)
    found = outcome(one, code, asked)
    assert found.state == state
    assert (found.error is not None) == (state == "failed")


def test_a_run_is_called_as_a_person_would_call_it(tmp_path, monkeypatch):
    one = child(tmp_path, "a")
    called: list[list[str]] = []
    monkeypatch.setattr(child_module.subprocess, "Popen", lambda command, **_: called.append(command))
    start(one, {}, (1, 3))
    # Half made: it was killed before it recorded anything.
    one.run_dir.mkdir()
    (one.run_dir / "left").touch()
    start(one, {})
    assert not one.run_dir.exists()
    manifest(one, "stopped_early")
    start(one, {})
    assert [command[4] for command in called] == ["1,3", "", ""]
    plain = ["record", str(one.config), "--run-dir", str(one.run_dir)]
    assert [command[5:] for command in called] == [plain, plain, [*plain, "--resume"]]


def test_last_words_are_the_programs_own_if_it_has_some(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("Traceback\ngrpodyn: the model 'x' cannot be loaded\nwarning: something\n")
    assert last_words(log) == "the model 'x' cannot be loaded"
    log.write_text("Traceback\nValueError: no\n\n")
    assert last_words(log) == "ValueError: no"
    assert last_words(tmp_path / "none") is None
