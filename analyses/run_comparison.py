"""Runs side by side: held-out accuracy before and after, what it cost, and where their configs differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.evaluation.records import HeldOut, held_out_by_step

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

SAME_BASE_WITHIN = 1e-3
"""Bases that are one model on one split have the same accuracy but for the arithmetic of the machine."""
# Where a run lies is no difference in what it did.
_PLACES = ("output_dir", "logging_dir", "run_name", "run_dir")


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    path: str
    run_id: str
    status: str
    trains: str
    """`all weights`, or the adapter."""
    trainable_params: int | None
    steps: int
    seconds: float
    """Wall time of the training steps; nan if not logged."""
    base: HeldOut
    trained: HeldOut
    gain: float
    """Trained minus base accuracy at temperature 1."""
    gain_kept: float
    """Gain over the first run's; nan if that is not positive."""
    missing: tuple[str, ...]
    """What was not evaluated."""


@dataclass(frozen=True)
class Difference:
    """A config key whose value is not the same in all runs; in the order of the runs, None where it is not set."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, the first being what the others are compared with."""

    runs: tuple[ComparedRun, ...]
    differences: tuple[Difference, ...]
    same_base: bool | None
    """None if the manifests do not say."""
    warnings: tuple[str, ...]


class RunComparison(Analysis):
    """Runs side by side: accuracy, cost, configs."""

    name: ClassVar[str] = "run_comparison"
    title: ClassVar[str] = "Runs side by side: held-out accuracy before and after, cost, and differences of config"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = (
        "Beside the trained accuracy stands the base's at its best temperature: cooling is not learning."
    )

    def run(self, run: Run, **options: Any) -> Comparison:
        """Return the `Comparison` of `run` with the runs in the option `others`."""
        runs = (run, *options.get("others", ()))
        compared = [_compared(one) for one in runs]
        gain = compared[0].gain
        kept = [replace(one, gain_kept=one.gain / gain if gain > 0 else math.nan) for one in compared]
        same_base, warnings = _comparable(runs, kept)
        return Comparison(tuple(kept), _differences(runs), same_base, (*warnings, *_caveats(runs, kept)))


def _compared(run: Run) -> ComparedRun:
    evaluations = held_out_by_step(run)
    base = evaluations.get(0, HeldOut(-1))
    last = max(evaluations, default=0)
    trained = evaluations[last] if last > 0 else HeldOut(-1)
    return ComparedRun(
        path=str(run.path),
        run_id=str(run.manifest.run_id),
        status=run.status,
        trains=_trains(run.manifest.lora),
        trainable_params=_trainable(run),
        steps=max(run.last_step, 0),
        seconds=_seconds(run),
        base=base,
        trained=trained,
        gain=trained.accuracy - base.accuracy,
        gain_kept=math.nan,
        missing=_missing(base, trained),
    )


def _missing(base: HeldOut, trained: HeldOut) -> tuple[str, ...]:
    """Return what was not evaluated; only of the base must the best temperature be known."""
    wanted = {
        "base accuracy": base.accuracy,
        "base greedy_accuracy": base.greedy,
        "base best_temperature_accuracy": base.best_temperature_accuracy,
        "trained accuracy": trained.accuracy,
        "trained greedy_accuracy": trained.greedy,
    }
    return tuple(what for what, value in wanted.items() if math.isnan(value))


def _trains(lora: Mapping[str, Any] | None) -> str:
    if not lora:
        return "all weights"
    kind = "DoRA" if lora.get("use_dora") else "rsLoRA" if lora.get("use_rslora") else "LoRA"
    return f"{kind} r={lora.get('r')} alpha={lora.get('lora_alpha')}"


def _trainable(run: Run) -> int | None:
    stated = run.manifest.model.get("trainable_parameters")
    if isinstance(stated, int):
        return stated
    tensors = run.tensors
    if not tensors.sizes.get("tensor", 0):
        return None
    # The effective ΔW of an adapted module is no parameter; its factors are.
    counted = np.asarray(tensors["trainable"].values, bool) & (tensors["source"].values != "lora")
    elements = np.asarray(tensors["rows"].values, np.int64) * np.asarray(tensors["cols"].values, np.int64)
    if "matrices" in tensors:
        # A stack of experts has the shape of one; the oldest traces do not say how many there are.
        elements = elements * np.asarray(tensors["matrices"].values, np.int64)
    return int(elements[counted].sum())


def _seconds(run: Run) -> float:
    data = run.metrics
    names = [str(name) for name in data["metric"].values] if "values" in data else []
    if "step_seconds" not in names:
        return math.nan
    return float(np.nansum(np.asarray(data["values"].values, np.float64)[:, names.index("step_seconds")]))


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return found


def _differences(runs: Sequence[Run]) -> tuple[Difference, ...]:
    if all(run.manifest.config is not None for run in runs):
        configs = [_flat(run.manifest.config) for run in runs]
    else:
        # A run of somebody's own script has no config of ours: what the trainer was given says the same.
        configs = [
            {
                "model": run.manifest.model.get("name"),
                **_flat(run.manifest.trainer.get("arguments") or {}, "grpo"),
                **_flat(run.manifest.lora or {}, "lora"),
            }
            for run in runs
        ]
    keys = dict.fromkeys(key for config in configs for key in config)
    found = [Difference(key, tuple(config.get(key) for config in configs)) for key in keys]
    return tuple(
        difference
        for difference in found
        if any(value != difference.values[0] for value in difference.values)
        and difference.key.rsplit(".", 1)[-1] not in _PLACES
    )


def _comparable(runs: Sequence[Run], compared: Sequence[ComparedRun]) -> tuple[bool | None, list[str]]:
    """Return whether all runs start from one base on one split, and what speaks against it."""
    warnings: list[str] = []
    known = True
    for what, values in (("base", _bases(runs)), ("task", [_task(run) for run in runs])):
        if any(value is None for value in values):
            known = False
            warnings.append(f"the manifests do not say whether the {what} is the same in all runs")
        elif any(value != values[0] for value in values):
            shown = ", ".join(str(value) for value in dict.fromkeys(map(str, values)))
            warnings.append(f"the runs do not share one {what} ({shown}): their gains are not comparable")
            return False, warnings
    bases = [one.base.accuracy for one in compared if not math.isnan(one.base.accuracy)]
    if bases and max(bases) - min(bases) > SAME_BASE_WITHIN:
        warnings.append(
            f"the bases' accuracies differ by {max(bases) - min(bases):.3f}: other weights or other held-out prompts, "
            "so the gains are not comparable"
        )
        return False, warnings
    return (True if known else None), warnings


def _bases(runs: Sequence[Run]) -> list[Any]:
    references = [run.manifest.reference for run in runs]
    hashes = [reference.get("sha256") for reference in references]
    # Digests of the model's own checkpoint tell bases apart. What a run saved itself does not: of a LoRA run it is the
    # adapter's start. The name is common to a LoRA run and a full run of one base.
    if all(hashes) and all(reference.get("source") == "checkpoint" for reference in references):
        return hashes
    return [_none_if_all_missing(run.manifest.model.get("name"), run.manifest.model.get("revision")) for run in runs]


def _task(run: Run) -> Any:
    dataset = run.manifest.dataset
    evaluate = (run.manifest.config or {}).get("evaluate") or {}
    return _none_if_all_missing(
        dataset.get("name"),
        dataset.get("split"),
        dataset.get("fingerprint"),
        evaluate.get("split"),
        evaluate.get("prompts"),
    )


def _none_if_all_missing(*values: Any) -> tuple[Any, ...] | None:
    return values if any(value is not None for value in values) else None


def _caveats(runs: Sequence[Run], compared: Sequence[ComparedRun]) -> list[str]:
    found = [
        f"{one.path} is {one.status}" + (f": {one.steps} steps" if one.status != "empty" else ": nothing was recorded")
        for one in compared
        if one.status not in ("finished", "stopped_early")
    ]
    found += [f"{one.path} lacks {', '.join(one.missing)}" for one in compared if one.missing]
    if not compared[0].gain > 0 and not math.isnan(compared[0].gain):
        found.append("the first run gained nothing, so no gain kept is given")
    found += [
        f"{one.path}: the base reaches {one.base.best_temperature_accuracy:.3f} at temperature "
        f"{one.base.best_temperature:g}, the trained model {one.trained.accuracy:.3f} at 1: cooling may explain it"
        for one in compared
        if one.base.best_temperature_accuracy >= one.trained.accuracy
    ]
    if len(runs) > 1:
        found.append("one seed each: no error bar, so a small difference may be the seed's; repeat with other seeds")
    return found
