"""Findings over a folder of recorded runs whose names say what was done to them.

    python benchmarks/diagnose_fleet.py FOLDER [--json FILE]

A run called `healthy-…` should be silent but for what is true of it; one called `fault-KIND-…` has the fault KIND
injected. Prints detection by kind with 95 % intervals, and every finding on a healthy run.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from pathlib import Path

from grpodyn import registry
from grpodyn.diagnosis import Diagnosis
from grpodyn.errors import GrpodynError
from grpodyn.statistics import wilson
from grpodyn.trace.reader import open_run

EXPECTED = {
    "lengthcap": {"truncation"},
    "constreward": {"reward_without_spread"},
    "impossible": {"dead_groups_hard"},
    "bf16lowlr": {"bf16_updates_lost"},
    "lr30": {"learning_rate_high"},
    "opposing": {"reward_opposition", "reward_dominance", "reward_hacking"},
    "longreward": {"reward_dominance", "reward_hacking"},
    "nanreward": {"reward_missing"},
    "loranotrain": {"learning_rate_low", "lora_untrained"},
}
"""Kind of fault -> findings of which at least one must be there."""
TRUE_OF_HEALTHY = {"clip_idle", "plateau", "dead_groups_easy", "group_size"}
"""Findings of severity info that hold of a run without a fault: it is used once a batch, has levelled off, is mastered,
or wastes groups."""


def main() -> None:
    """Diagnose every run of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Diagnosis] = {}
    began = time.perf_counter()
    for path in sorted(arguments.folder.iterdir()):
        if (path / "run.json").exists() and re.match(r"healthy-|fault-", path.name):
            try:
                results[path.name] = registry.analysis("diagnose").run(open_run(path))
            except GrpodynError as error:
                print(f"{path.name}: {error}")
    finished = {name: d for name, d in results.items() if "the run is still being written" not in _words(d)}
    seconds = time.perf_counter() - began
    print(
        f"{len(finished)} runs, {seconds / max(1, len(results)):.2f} s each; {len(results) - len(finished)} still run\n"
    )
    facts = {"faults": _faults(finished), "healthy": _healthy(finished)}
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n")


def _words(diagnosis: Diagnosis) -> str:
    return " ".join(sentence for finding in diagnosis.findings for sentence in finding.evidence)


def _faults(results: dict[str, Diagnosis]) -> dict[str, object]:
    by_kind: dict[str, list[set[str]]] = defaultdict(list)
    for name, diagnosis in results.items():
        if name.startswith("fault-"):
            by_kind[name.split("-")[1]].append({finding.id for finding in diagnosis.findings})
    facts: dict[str, object] = {}
    print(f"{'fault':<14}{'found':>8}  {'95 % interval':<16}findings")
    for kind, found in sorted(by_kind.items()):
        hits = sum(bool(ids & EXPECTED.get(kind, set())) for ids in found)
        interval = wilson(hits, len(found), 0.95)
        counts = Counter(name for ids in found for name in ids)
        listed = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        print(f"{kind:<14}{hits:>4}/{len(found):<3}  {interval.low:.2f}–{interval.high:.2f}       {listed}")
        facts[kind] = {"found": hits, "runs": len(found), "findings": dict(counts)}
    return facts


def _healthy(results: dict[str, Diagnosis]) -> dict[str, object]:
    healthy = {name: d for name, d in results.items() if name.startswith("healthy-")}
    false: list[str] = []
    true: Counter[str] = Counter()
    for name, diagnosis in healthy.items():
        for finding in diagnosis.findings:
            if finding.severity == "info" and finding.id in TRUE_OF_HEALTHY:
                true[finding.id] += 1
            else:
                false.append(f"{name}: {finding.id} ({finding.severity}): {'; '.join(finding.evidence)}")
    clean = len(healthy) - len({line.split(":")[0] for line in false})
    interval = wilson(clean, len(healthy), 0.95) if healthy else None
    said = f" ({interval.low:.2f}–{interval.high:.2f})" if interval is not None else ""
    print(f"\nhealthy: {clean} of {len(healthy)} without a false finding{said}; true and worth knowing: {dict(true)}")
    for line in false:
        print(f"  false: {line}")
    return {"runs": len(healthy), "clean": clean, "false": false, "true": dict(true)}


if __name__ == "__main__":
    main()
