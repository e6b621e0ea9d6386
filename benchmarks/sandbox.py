"""How long a batch of programs takes to judge: 64 completions with 3 tests each.

python benchmarks/sandbox.py [--completions N] [--tests N] [--repeats N]
"""

from __future__ import annotations

import argparse
import statistics
import time

from grpodyn.sandbox import Program, SandboxPool


def main() -> None:
    """Judge the batch a few times and print the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=64)
    parser.add_argument("--tests", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    code = "def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n"
    programs = [
        Program(code + f"# {i}\n", tuple(f"assert fib({n + 5}) > 0" for n in range(args.tests)))
        for i in range(args.completions)
    ]
    seconds = []
    with SandboxPool() as pool:
        for _ in range(args.repeats):
            start = time.perf_counter()
            outcomes = pool.judge(programs)
            seconds.append(time.perf_counter() - start)
            assert all(outcome.all_passed for outcome in outcomes)
        print(f"walls: {pool.walls.kind}")
    print(
        f"{args.completions} completions x {args.tests} tests: median {statistics.median(seconds):.1f} s of {seconds}"
    )


if __name__ == "__main__":
    main()
