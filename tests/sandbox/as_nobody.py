"""Run by root: judges every hostile program as an ordinary user, having given root up for good.

    python as_nobody.py KIND FOLDER

What it imports later must be in memory before: an ordinary user may not be able to read this Python.
"""

import concurrent.futures.thread
import os
import sys
from pathlib import Path

from grpodyn.sandbox import process
from grpodyn.sandbox.interpreter import own_interpreter
from grpodyn.sandbox.judge import judge
from grpodyn.sandbox.limits import MIB, Limits
from grpodyn.sandbox.program import Program
from grpodyn.sandbox.walls import Kind

NOBODY = 65534
LIMITS = Limits(test_seconds=1.0, cpu_seconds=2, memory_bytes=256 * MIB, scratch_bytes=4 * MIB, file_bytes=MIB)
TESTS = ("assert solve(2) == 4", "assert solve(3) == 9")


def main() -> None:
    kind, folder = Kind(sys.argv[1]), Path(sys.argv[2])
    codes = {path.name: path.read_text() for path in sorted(folder.glob("*.py.txt"))}
    for name in ("wire", "confine", "namespaces", "solution", "checker"):
        process._text(name)
    own_interpreter()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)

    honest = judge(Program("def solve(n):\n    return n * n\n", TESTS), kind, LIMITS)
    assert honest.all_passed, honest
    with concurrent.futures.thread.ThreadPoolExecutor(2) as threads:
        outcomes = threads.map(lambda code: judge(Program(code, TESTS), kind, LIMITS), codes.values())
        for name, outcome in zip(codes, outcomes, strict=True):
            assert outcome.passed == 0, (name, outcome)
            print(name)


if __name__ == "__main__":
    main()
