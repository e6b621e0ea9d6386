"""kill -9 at any moment: nothing committed is lost, no row appears that was never written, and the run can go on."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from grpodyn import open_run
from grpodyn.trace.writer import TraceWriter

VICTIM = Path(__file__).with_name("kill_victim.py")
ROWS = 90
TENSORS = 5


@dataclass
class Killed:
    path: Path
    committed: dict[str, int]
    """What `commit.json` said just before the kill."""
    finished: bool


class Victims:
    """One process that forks a recording one for each run."""

    def __init__(self) -> None:
        command = [sys.executable, VICTIM, str(ROWS)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = threading.Lock()

    def _ask(self, line: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def kill_after(self, path: Path, seconds: float) -> Killed:
        number = self._ask(path)
        time.sleep(seconds)
        committed = json.loads((path / "commit.json").read_text())["rows"]
        os.kill(number, signal.SIGKILL)
        status = self._ask(number)
        assert status in (0, -signal.SIGKILL)
        return Killed(path, committed, status == 0)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    victims = Victims()
    yield victims
    victims.close()


def check(killed: Killed) -> None:
    """Assert every promise of one killed run, then resume it and assert the rest."""
    run = open_run(killed.path)
    rows = run.rows
    assert run.problems == []
    for group, count in killed.committed.items():
        assert rows[group] >= count, f"{group} lost committed rows"
    last = max(rows["tensors"], rows["metrics"])
    assert run.status == ("interrupted" if last else "empty")
    assert run.last_step == (last or -1)
    check_values(run.path, rows["tensors"])

    writer = TraceWriter.resume(killed.path, rows["tensors"])
    for step in range(rows["tensors"] + 1, ROWS + 1):
        writer.add_row("tensors", step, {"update_norm": step + np.arange(TENSORS) / 8}) if last else None
        writer.add_row("metrics", step, {"loss": 1 / step})
    writer.close("finished")
    resumed = open_run(killed.path)
    assert len(resumed.manifest.segments) == 2
    assert resumed.status == "finished"
    if last:
        check_values(killed.path, ROWS)


def check_values(path: Path, count: int) -> None:
    run = open_run(path)
    if not count:
        return
    assert run.tensors["step"].values.tolist() == list(range(1, count + 1))
    expected = np.arange(1, count + 1)[:, None] + np.arange(TENSORS) / 8
    np.testing.assert_array_equal(run.tensors["update_norm"].values, expected.astype(np.float32))
    loss = run.metric("loss")
    np.testing.assert_array_equal(loss.values, 1 / loss["step"].values)
    assert loss["step"].values.tolist() == list(range(1, len(loss) + 1))
    for row, step in enumerate(run.spectra["step"].values.tolist()):
        assert run.spectra["measured_step"].values[row].tolist() == [step] * TENSORS


def run_kills(victims: Victims, tmp_path: Path, moments: list[float], at_once: int) -> list[Killed]:
    with ThreadPoolExecutor(at_once) as pool:
        paths = [tmp_path / f"run-{i}" for i in range(len(moments))]
        killed = list(pool.map(victims.kill_after, paths, moments))
    for victim in killed:
        check(victim)
    return killed


def test_two_kills(victims: Victims, tmp_path: Path) -> None:
    killed = run_kills(victims, tmp_path, [1.3, 2.1], at_once=2)
    assert all(victim.committed.get("tensors") for victim in killed)


@pytest.mark.slow
def test_forty_seven_kills(victims: Victims, tmp_path: Path) -> None:
    rng = random.Random(20)
    # Six hit the start, before anything is committed; the rest are spread over the run.
    moments = [rng.uniform(0.0, 0.6) for _ in range(6)] + [rng.uniform(1.2, 4.0) for _ in range(44)]
    killed = run_kills(victims, tmp_path, moments, at_once=6)
    landed = [victim for victim in killed if victim.committed.get("tensors") and not victim.finished]
    assert len(killed) >= 47
    assert len(landed) >= 40
