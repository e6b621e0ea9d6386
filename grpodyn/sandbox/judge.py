"""Judges one program: its code in one process, its tests in another, messages carried between them unread."""

from __future__ import annotations

import json
import time
from typing import Any

from grpodyn.sandbox.limits import Limits
from grpodyn.sandbox.outcome import Outcome, TestResult
from grpodyn.sandbox.pipe import Lost
from grpodyn.sandbox.process import Inside, Role
from grpodyn.sandbox.program import Program, StdioCase
from grpodyn.sandbox.walls import Kind

TOO_LONG = "the program took too long"
NOT_RUN = "not run: an earlier test took too long"


def judge(program: Program, kind: Kind, limits: Limits) -> Outcome:
    """Return what came of every test of a program; whatever the program does, that is all it changes."""
    count = len(program.tests) + len(program.cases)
    try:
        with Inside(Role.SOLUTION, kind, limits) as solution:
            looks = _look(solution, program.code)
            if not looks["parses"]:
                return Outcome(False, 0, (TestResult(False, f"no Python: {looks.get('why', '')}"),) * count)
            called = _Tests(program, kind, limits).run(solution) if program.tests else []
    except Lost as error:
        # Before the first answer no foreign code has run: the code is too long to carry, or to parse in time.
        return Outcome(False, 0, (TestResult(False, f"the program {error}"),) * count)
    results = list(called)
    for case in program.cases:
        hung = bool(results) and results[-1].why in (TOO_LONG, NOT_RUN)
        results.append(TestResult(False, NOT_RUN) if hung else _case(program.code, case, kind, limits))
    return Outcome(True, int(looks["branches"]), tuple(results))


def _look(solution: Inside, code: str) -> dict[str, Any]:
    solution.send({"code": code})
    return solution.receive()


class _Tests:
    """The tests of one program that call what it defines."""

    def __init__(self, program: Program, kind: Kind, limits: Limits) -> None:
        self._program, self._kind, self._limits = program, kind, limits

    def run(self, solution: Inside) -> list[TestResult]:
        """Run each test; where one ends the program, the next ones get it started anew.

        A program that takes too long once is not waited for again: its other tests fail too.
        """
        tests = self._program.tests
        with Inside(Role.CHECKER, self._kind, self._limits) as checker:
            results = self._run_until_lost(solution, checker, tests)
        while len(results) < len(tests):
            if results[-1].why == TOO_LONG:
                return results + [TestResult(False, NOT_RUN)] * (len(tests) - len(results))
            with (
                Inside(Role.SOLUTION, self._kind, self._limits) as again,
                Inside(Role.CHECKER, self._kind, self._limits) as checker,
            ):
                _look(again, self._program.code)
                results += self._run_until_lost(again, checker, tests[len(results) :])
        return results

    def _run_until_lost(self, solution: Inside, checker: Inside, tests: tuple[str, ...]) -> list[TestResult]:
        """Return the results up to and including the test in which a process was lost; at least one."""
        try:
            loaded = solution.receive()
        except Lost as error:  # loading hangs or ends the process, and would again
            return [TestResult(False, f"the program {error} when loaded")] * len(tests)
        if not loaded.get("loaded"):
            return [TestResult(False, f"the program raised {loaded.get('why')} when loaded")] * len(tests)
        results: list[TestResult] = []
        try:
            checker.send({"names": loaded["names"]})
            for test in tests:  # not extended at once: what was seen before a loss is kept
                results.append(self._one(solution, checker, test))  # noqa: PERF401
        except Lost as error:
            results.append(TestResult(False, f"the program {error}"))
        return results

    def _one(self, solution: Inside, checker: Inside, test: str) -> TestResult:
        deadline = time.monotonic() + self._limits.test_seconds
        checker.send({"setup": self._program.setup, "test": test})
        while True:
            said = checker.receive(deadline)
            if said.get("done"):
                why = said.get("why")
                return TestResult(why is None, "" if why is None else str(why))
            solution.forward(json.dumps(said["ask"]).encode())
            checker.forward(solution.receive_bytes(deadline))


def _case(code: str, case: StdioCase, kind: Kind, limits: Limits) -> TestResult:
    try:
        with Inside(Role.STDIO, kind, limits, stdin=case.given, code=code) as process:
            printed = process.read_to_end()
    except Lost as error:
        return TestResult(False, f"the program {error}")
    if _lines(printed.decode("utf-8", "replace")) == _lines(case.printed):
        return TestResult(True)
    return TestResult(False, "printed something else")


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines
