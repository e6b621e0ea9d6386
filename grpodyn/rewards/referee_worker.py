"""The process that judges answers: reads one question a line, writes one score a line. See `grpodyn.rewards.referee`.

It imports what judges once and then judges in a fork of itself. The kernel kills that fork when a judgement takes too
long (a timer with the default action, which no code can hold up) or too much memory; another fork takes its place.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

MEMORY: Final = 4 << 30
"""Bytes of address space."""

Judge = Callable[[dict[str, Any]], float]


def main() -> None:
    """Answer questions until there are none."""
    kind, seconds = sys.argv[1], float(sys.argv[2])
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not be taken for a score
    try:
        judge = _JUDGES[kind]()
    except ImportError as error:
        _say(out, "missing " + json.dumps(f"{error}; what judges these answers: pip install 'grpodyn[tasks]'"))
        return
    _say(out, "ready")
    while True:
        child = os.fork()
        if child == 0:
            _serve(judge, seconds, out)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        _say(out, "0.0")


def _serve(judge: Judge, seconds: float, out: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    while True:
        line = _read_line()
        if line is None:
            return
        # Of CPU time, so that a busy machine makes no answer wrong; the other side watches the clock.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            score = float(judge(json.loads(line)))
        except Exception:  # noqa: BLE001  # whatever a parser raises on a model's text: the answer is none
            score = 0.0
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(out, repr(score))


def _read_line() -> bytes | None:
    # Not through a buffer: what it had read ahead would die with the fork.
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return None
        line += part
    return line


def _say(out: int, line: str) -> None:
    os.write(out, line.encode() + b"\n")


def _mathematics() -> Judge:
    import math_verify  # noqa: PLC0415  # optional

    # Its own time limits are those of a signal's handler, which an operation on huge numbers holds up.
    @cache
    def parsed(text: str) -> Any:
        return math_verify.parse(text, parsing_timeout=None)

    def judge(question: dict[str, Any]) -> float:
        given = math_verify.parse(question["given"], parsing_timeout=None)
        return float(math_verify.verify(parsed(question["gold"]), given, timeout_seconds=None))

    # The first judgement imports and compiles a lot: once, before there are forks.
    judge({"given": "$x^2$", "gold": "$x + 1$"})
    return judge


def _puzzle() -> Judge:
    import reasoning_gym  # noqa: PLC0415  # optional

    @cache
    def dataset(generator: str, settings: str) -> Any:
        return reasoning_gym.create_dataset(generator, **json.loads(settings))

    def judge(question: dict[str, Any]) -> float:
        made = dataset(question["generator"], json.dumps(question["settings"], sort_keys=True))
        return float(made.score_answer(question["given"], made[question["index"]]))

    return judge


_JUDGES: Final[dict[str, Callable[[], Judge]]] = {"math": _mathematics, "reasoning_gym": _puzzle}

if __name__ == "__main__":
    main()
