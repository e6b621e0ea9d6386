"""How often `attribute` says the right thing of planted models: `python benchmarks/attribution_verdicts.py`.

Everything but the model is the real path: search, intervals, verdicts, the check on fresh prompts. Thresholds were
looked at on seeds below 400; what is published comes from later seeds.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpodyn.attribution.asking import Asker, Outcomes, Split
from grpodyn.attribution.investigate import Findings, Options, investigate
from grpodyn.attribution.state import State
from grpodyn.statistics import wilson
from grpodyn.trace import strict_json
from grpodyn.trace.schema import TensorInfo

_PLANTED = Path(__file__).parents[1] / "tests" / "simulation" / "planted.py"
OPTIONS = Options(ranks=(), null_draws=0)
"""Planted models have no matrices to truncate or to turn."""


def planted() -> Any:
    """Return the module of the planted models, which the tests share."""
    if "planted" not in sys.modules:
        spec = importlib.util.spec_from_file_location("planted", _PLANTED)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["planted"] = module
        spec.loader.exec_module(module)
    return sys.modules["planted"]


def info(name: str) -> TensorInfo:
    """Return what the names of a planted model say of its tensors."""
    segments = name.split(".")
    layer = int(segments[2]) if segments[1] == "layers" else -1
    module = segments[-2]
    kinds = {"embed_tokens": "embedding", "lm_head": "head"}
    kind = kinds.get(module, "norm" if "norm" in module else "linear")
    return TensorInfo(name, layer, module, "model.layers" if layer >= 0 else "", kind, 8, 8, "float32", True, "full")


def attribute(model: Any, prompts: int, options: Options = OPTIONS, most: int | None = None) -> Findings:
    """Run the whole attribution on a planted model."""
    options = replace(options, sampled=getattr(model, "samples", None) is not None)

    def evaluate(state: State, split: Split) -> Outcomes:
        return Outcomes(model.outcomes(state.changed, prompts, split))

    return investigate(Asker(evaluate, most=most), [info(name) for name in model.every], options)


def right(model: Any, findings: Findings) -> bool:
    """Return whether word, layers and reach are those planted; a block that holds the layer counts as naming it."""
    truth, verdict = model.truth, findings.verdict
    if verdict.word != truth.verdict:
        return False
    parts = {s.part.name: s.part for p in findings.partitions for s in p.shares}
    named = [parts[name] for name in verdict.parts]
    if not truth.reachable:
        return len(named) == 1 and not named[0].is_target
    layers = {layer for part in named for layer in part.layers}
    return layers == set(truth.layers)


def one(arguments: tuple[int, int, int, int, int | None]) -> tuple[bool, str, int]:
    """Return whether one planted model was read right, what was said, and the evaluations made."""
    scenario, seed, layers, prompts, samples = arguments
    model = planted().PlantedModel(planted().SCENARIOS[scenario], seed, layers, samples)
    findings = attribute(model, prompts)
    return right(model, findings), findings.verdict.word, findings.evaluations


def main() -> None:
    """Print one row a scenario, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, default=None, help="number of one setting")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    settings = [(12, 500, None), (12, 1000, 4), (32, 500, None)]
    if options.only is not None:
        settings = [settings[options.only]]
    rows = []
    with ProcessPoolExecutor(options.workers) as pool:
        for layers, prompts, samples in settings:
            how = "exact" if samples is None else f"k={samples}"
            print(f"{layers} layers, {prompts} prompts, {how}")
            for number, scenario in enumerate(planted().SCENARIOS):
                seeds = range(options.first_seed, options.first_seed + options.seeds)
                work = [(number, seed, layers, prompts, samples) for seed in seeds]
                results = list(pool.map(one, work, chunksize=20))
                hits = sum(hit for hit, _, _ in results)
                interval = wilson(hits, len(results), 0.95)
                said = Counter(word for hit, word, _ in results if not hit)
                most = max(made for _, _, made in results)
                print(
                    f"  {scenario.name:40s} {hits}/{len(results)} right, at least {interval.low:.3f}; "
                    f"{most} evaluations at most; else {dict(said)}",
                    flush=True,
                )
                row = {"scenario": scenario.name, "layers": layers, "prompts": prompts, "samples": samples}
                rows.append({**row, "right": hits, "seeds": len(results), "low": interval.low, "evaluations": most})
                if options.output is not None:
                    # After every row: a stopped run keeps what it has counted.
                    options.output.write_text(strict_json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
