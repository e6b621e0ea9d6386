"""Runs side by side: where their configs differ, what each gained and cost, and where arms of several seeds part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.arms.arm import Arm, Difference, arms_of, differences
from grpodyn.arms.curves import curves_of
from grpodyn.arms.layers import LayerComparison, compare_layers
from grpodyn.arms.metrics import MetricComparisons, compare_metrics
from grpodyn.evaluation.records import ACCURACY, HeldOut, held_out_by_step

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

SAME_BASE_WITHIN = 1e-3
"""Bases that are one model on one split have the same accuracy but for the arithmetic of the machine."""
METRICS = (
    ACCURACY,
    "reward",
    "entropy",
    "kl",
    "completions/mean_length",
    "completions/clipped_ratio",
    "frac_reward_zero_std",
    "grad_norm",
)
"""What arms are compared by, unless others are named."""
_FEW_SHARED = 0.5


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
class ComparedArm:
    """Runs of one config; their seeds are its noise."""

    label: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, the first being what the others are compared with."""

    runs: tuple[ComparedRun, ...]
    differences: tuple[Difference, ...]
    arms: tuple[ComparedArm, ...]
    metrics: MetricComparisons
    """Each metric in every arm beside the first arm."""
    layers: LayerComparison
    same_base: bool | None
    """None if the manifests do not say."""
    warnings: tuple[str, ...]


class RunComparison(Analysis):
    """Runs side by side: accuracy, cost, configs."""

    name: ClassVar[str] = "run_comparison"
    title: ClassVar[str] = "Runs side by side: differences of config, accuracy, cost, and where arms of seeds part"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = (
        "Beside the trained accuracy stands the base's at its best temperature: cooling is not learning."
    )

    def run(self, run: Run, **options: Any) -> Comparison:
        """Return the `Comparison` of `run` with the runs in the option `others`.

        The option `metrics` names what arms are compared by, beside the held-out accuracy.
        """
        runs = (run, *options.get("others", ()))
        compared = [_compared(one) for one in runs]
        gain = compared[0].gain
        kept = [replace(one, gain_kept=one.gain / gain if gain > 0 else math.nan) for one in compared]
        same_base, warnings = _comparable(runs, kept)
        arms = arms_of(runs)
        named = tuple(dict.fromkeys((ACCURACY, *options.get("metrics", ())))) if options.get("metrics") else METRICS
        curves = [
            (arm.label, [[curve for one in arm.runs for curve in curves_of(one, metric)] for metric in named])
            for arm in arms
        ]
        several = len(arms) > 1
        return Comparison(
            runs=tuple(kept),
            differences=differences(runs),
            arms=tuple(ComparedArm(arm.label, tuple(str(one.path) for one in arm.runs)) for arm in arms),
            metrics=compare_metrics(curves, named),
            layers=compare_layers(arms) if several else LayerComparison((), ()),
            same_base=same_base,
            warnings=(*warnings, *_caveats(runs, kept), *_noise(arms), *_restarts(runs), *_unshared_names(runs)),
        )


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
    evaluate = run.manifest.section("evaluate")
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
    return found


def _noise(arms: Sequence[Arm]) -> list[str]:
    if len(arms) < 2:
        return []
    if all(len(arm.runs) == 1 for arm in arms):
        return ["one seed each: no error bar, so a small difference may be the seed's; repeat with other seeds"]
    single = [arm.label for arm in arms if len(arm.runs) == 1]
    if single:
        return [f"{', '.join(single)}: one run, judged by the spread of the other arm's seeds"]
    return []


def _restarts(runs: Sequence[Run]) -> list[str]:
    """Name records that hold several runs, as a log that was opened to append does."""
    counts = {str(run.path): max((len(curves_of(run, name)) for name in ("reward", "loss")), default=0) for run in runs}
    return [
        f"{path} holds {count} runs (its steps start over): each counts as a run of its own"
        for path, count in counts.items()
        if count > 1
    ]


def _unshared_names(runs: Sequence[Run]) -> list[str]:
    """Name runs whose tensors are called otherwise: an adapter of one does nothing on the model of the other."""
    names = [_tensor_names(run) for run in runs]
    found = []
    for run, own in zip(runs[1:], names[1:], strict=True):
        if not own or not names[0]:
            continue
        shared = len(own & names[0]) / min(len(own), len(names[0]))
        if shared == 0:
            found.append(
                f"{run.path} and {runs[0].path} share no tensor name ({min(own)}, {min(names[0])}): other classes of "
                "model, on which the other's adapter would silently do nothing"
            )
        elif shared < _FEW_SHARED:
            found.append(
                f"{run.path} and {runs[0].path} share {shared:.0%} of their tensor names: what is compared is that"
            )
    return found


def _tensor_names(run: Run) -> set[str]:
    if not run.tensors.sizes.get("tensor", 0):
        return set()
    own = run.tensors["source"].values != "factor"
    return {str(name) for name in run.tensors["tensor"].values[own]}
