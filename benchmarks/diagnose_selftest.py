"""Detection and false alarms of the diagnosis on simulated runs.

    python benchmarks/diagnose_selftest.py [--first 1000] [--healthy 1000] [--runs 40] [--json FILE]

Thresholds are set on seeds 0–999; figures are reported on seeds 1000–1999. The scenarios are those of
tests/simulation/faults.py. A finding counts as false if the simulation says that it does not hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

from grpodyn.diagnosis import diagnose
from grpodyn.statistics import wilson

SIMULATION = Path(__file__).parents[1] / "tests" / "simulation"


def load(name: str) -> ModuleType:
    """Return a module of the simulation: tests are no package."""
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", SIMULATION / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{SIMULATION / name}.py is missing: run this from a checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Diagnose simulated runs, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--healthy", type=int, default=1000, help="healthy runs")
    parser.add_argument("--runs", type=int, default=40, help="runs of each fault")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    faults, observing = load("faults"), load("observing")
    began = time.perf_counter()
    false: Counter[str] = Counter()
    struck = 0
    for seed in range(arguments.first, arguments.first + arguments.healthy):
        run = faults.healthy_run(seed)
        wrong = {f.id for f in diagnose(observing.observe(run)).findings} - run.allowed
        false.update(wrong)
        struck += bool(wrong)
    interval = wilson(struck, arguments.healthy, 0.95)
    print(f"healthy: {sum(false.values())} false findings in {arguments.healthy} runs, seeds from {arguments.first}")
    print(f"  {struck} runs with one ({interval.low:.2%}–{interval.high:.2%}): {dict(false)}\n")
    table = {}
    print(f"{'scenario':<24}{'found':>9}  {'95 % interval':<14}{'late':>7}  false beside it")
    for scenario in faults.FAULTS:
        table[scenario.__name__] = _scenario(scenario, faults, observing, arguments.first, arguments.runs)
    hits = sum(row["found"] for row in table.values())
    total = sum(row["runs"] for row in table.values())
    print(f"\n{hits} of {total} faults found in {len(table)} scenarios; {time.perf_counter() - began:.0f} s")
    if arguments.json:
        facts = {"healthy": {"runs": arguments.healthy, "false": dict(false), "struck": struck}, "faults": table}
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n")


def _scenario(scenario: object, faults: ModuleType, observing: ModuleType, first: int, runs: int) -> dict[str, int]:
    found, beside = 0, Counter[str]()
    late: list[float] = []
    for seed in range(first, first + runs):
        run = faults.simulate(scenario, seed)
        findings = {finding.id: finding for finding in diagnose(observing.observe(run)).findings}
        found += run.expected <= set(findings)
        beside.update(set(findings) - run.expected - run.allowed)
        onsets = [findings[name].onset_step for name in run.expected if name in findings]
        if run.onset is not None and onsets and onsets[0] is not None:
            late.append((onsets[0] - run.onset) / float(run.steps[-1]))
    interval = wilson(found, runs, 0.95)
    middle = f"{sorted(late)[len(late) // 2]:+.0%}" if late else "–"
    name = str(getattr(scenario, "__name__", scenario))
    print(
        f"{name:<24}{found:>5}/{runs:<3}  {interval.low:.2f}–{interval.high:.2f}    {middle:>7}  {dict(beside) or ''}"
    )
    return {"found": found, "runs": runs, "false": sum(beside.values())}


if __name__ == "__main__":
    main()
