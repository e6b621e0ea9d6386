"""Answers that would take for ever, or all memory, are wrong, and the next one is judged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from grpodyn.errors import ConfigError
from grpodyn.rewards.referee import Referee

pytest.importorskip("math_verify")


@pytest.fixture(scope="module")
def one():
    referee = Referee("math", seconds=1.0, workers=1)
    yield referee
    referee.close()


def ask(referee: Referee, *pairs: tuple[str, str]) -> list[float]:
    return referee.judge([{"given": given, "gold": gold} for given, gold in pairs])


def test_what_never_ends_is_wrong_and_the_next_is_judged(one) -> None:
    right, endless = ("$x^2$", r"$x \cdot x$"), (r"$9^{9^{9^{9}}}$", "$1$")
    assert ask(one, right, endless, right, ("$x$", r"$x \cdot x$"), (r"$\frac{2}{6}$", "$1/3$")) == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "text", ["", "$", r"\frac{", "\x00", "{" * 1500, r"$\begin{matrix}$", "__import__('os').getcwd()"]
)
def test_whatever_is_written_is_judged(one, text) -> None:
    assert ask(one, (text, "$x$"), ("$x$", "$x$")) == [0, 1]


def test_nothing_is_left_behind() -> None:
    referee = Referee("math", workers=1)
    ask(referee, ("$x$", "$x$"))
    worker = referee._idle.get()
    assert worker is not None
    pid = worker._process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children
    referee._idle.put(worker)
    referee.close()
    assert not Path(f"/proc/{pid}").exists()
    for child in children:
        _gone(int(child))


def test_what_cannot_be_judged_is_said(monkeypatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ConfigError, match="it did not start"):
        ask(Referee("math", workers=1), ("$x$", "$x$"))


def _gone(pid: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")
