"""What a run lost beside what it gained: fixed text, earlier stages, drift of the policy, and which layers moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from grpodyn.analysis import Analysis
from grpodyn.arms.layers import layer_shares
from grpodyn.errors import MissingDataError
from grpodyn.evaluation import kept_losses
from grpodyn.evaluation.kept_losses import Kept
from grpodyn.evaluation.perplexity import WindowLosses, perplexity_ratio
from grpodyn.evaluation.records import held_out_by_step
from grpodyn.evaluation.retention import PERPLEXITY, STAGE
from grpodyn.series.columns import evaluation
from grpodyn.statistics import Interval, mean_interval, paired_interval

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

NO_CAUSE = (
    "the layers moved while this was lost; that says neither that they hold what was lost nor that keeping them still "
    "would keep it: `ablate` with fewer layers would"
)


@dataclass(frozen=True)
class TextChange:
    """Perplexity of one text before and after training."""

    text: str
    before: float
    """Per token."""
    after: float
    ratio: Interval
    """After over before, paired over windows; above 1 is worse. Bounds are nan where windows were not kept."""
    word_before: float
    """Per word; nan where no word begins in what is scored."""
    word_after: float
    windows: int


@dataclass(frozen=True)
class DriftAt:
    """How far the policy has moved at a step."""

    step: int
    forward_kl: Interval
    """KL(π₀‖π) in nats a completion, over prompts."""
    per_token: float


@dataclass(frozen=True)
class StageChange:
    """An earlier stage, tested again."""

    name: str
    before: float
    """Mean exact chance of the right answer."""
    after: float
    difference: Interval
    """After minus before, paired over prompts; bounds are nan where prompts were not kept."""
    prompts: int


@dataclass(frozen=True)
class Point:
    """One step of the curve of retention against gain; nan where not measured."""

    step: int
    gain: float
    """Held-out accuracy of the task, minus that of the base."""
    forward_kl: float
    perplexity_ratio: Mapping[str, float]
    """Of each text, to step 0."""
    stage_difference: Mapping[str, float]
    """Of each stage, to step 0."""


@dataclass(frozen=True)
class Forgetting:
    """What was lost and what was gained."""

    run_id: str
    status: str
    first_step: int
    last_step: int
    perplexity: tuple[TextChange, ...]
    kl: tuple[DriftAt, ...]
    stages: tuple[StageChange, ...]
    curve: tuple[Point, ...]
    layers: Mapping[str, float]
    """Each layer's share of the relative displacement at the end; empty where not recorded."""
    no_cause: str
    notes: tuple[str, ...]


class ForgettingAnalysis(Analysis):
    """Retention and gain over a run."""

    name: ClassVar[str] = "forgetting"
    title: ClassVar[str] = "What a run lost: perplexity of fixed text, earlier stages, drift; against what it gained"
    requires: ClassVar[tuple[str, ...]] = ("evaluations",)
    reference: ClassVar[str] = (
        "Forward KL on the new task's prompts predicts forgetting, weight norms do not: arXiv 2509.04259. Perplexity "
        "of plain text, without a chat template."
    )

    def run(self, run: Run, **options: Any) -> Forgetting:
        """Return the `Forgetting` of a run.

        The option `measured` holds further measurements (`Kept`), such as of texts that were chosen afterwards.

        Raises:
            MissingDataError: the run measured nothing beside its task; the message says how to.
        """
        later: Sequence[Kept] = tuple(options.get("measured", ()))
        # A text that was measured again may have been cut otherwise: the two are not mixed.
        again = {(one.kind, one.name) for one in later}
        kept = [*(one for one in kept_losses.read(run) if (one.kind, one.name) not in again), *later]
        perplexities, stages = _texts(run, kept), _stages(run, kept)
        drift = _drift(kept)
        if not (perplexities or stages or drift):
            run.require("metrics")
            raise MissingDataError(
                f"{run.path} measured nothing beside its task; record with `--set 'evaluate.texts=[FILE]' --set "
                "evaluate.kl=true` (and evaluate.stages), or measure its saved weights now: `grpodyn forgetting RUN "
                "--text FILE`"
            )
        curve = _curve(run, kept)
        layers = layer_shares(run)
        notes = [] if layers else ["which layers moved is not recorded: record the probe layer_delta"]
        if len(curve) < 3:
            notes.append("measured before and after alone: for a curve between, set `evaluate.every`")
        steps = [point.step for point in curve]
        return Forgetting(
            run_id=run.manifest.run_id,
            status=run.status,
            first_step=min(steps),
            last_step=max(steps),
            perplexity=perplexities,
            kl=drift,
            stages=stages,
            curve=curve,
            layers=layers,
            no_cause=NO_CAUSE,
            notes=tuple(notes),
        )


def _of(kept: Sequence[Kept], kind: str) -> dict[str, list[Kept]]:
    names = dict.fromkeys(one.name for one in kept if one.kind == kind)
    return {
        name: sorted((one for one in kept if (one.kind, one.name) == (kind, name)), key=lambda one: one.step)
        for name in names
    }


def _of_the_same_prompts(series: Sequence[Kept]) -> list[Kept]:
    # A run that was resumed may ask other prompts than before: only answers to the last ones are paired.
    return [one for one in series if one.values.shape == series[-1].values.shape]


def _losses(one: Kept) -> WindowLosses:
    return WindowLosses(one.values, one.tokens, one.words)


def _texts(run: Run, kept: Sequence[Kept]) -> tuple[TextChange, ...]:
    found = []
    for name, series in _of(kept, "text").items():
        same = [one for one in series if one.digest == series[-1].digest]
        before, after = _losses(same[0]), _losses(same[-1])
        found.append(
            TextChange(
                text=name,
                before=before.perplexity,
                after=after.perplexity,
                ratio=perplexity_ratio(before, after),
                word_before=before.word_perplexity,
                word_after=after.word_perplexity,
                windows=len(after.tokens),
            )
        )
    known = {change.text for change in found}
    for name, means in _means(run, PERPLEXITY).items():
        if name not in known:
            first, last = _ends(means)
            ratio = Interval(_ratio(last, first), math.nan, math.nan, 0.95)
            found.append(TextChange(name, first, last, ratio, math.nan, math.nan, 0))
    return tuple(found)


def _stages(run: Run, kept: Sequence[Kept]) -> tuple[StageChange, ...]:
    found = []
    for name, series in _of(kept, "stage").items():
        same = _of_the_same_prompts(series)
        before, after = same[0].values, same[-1].values
        found.append(
            StageChange(name, float(before.mean()), float(after.mean()), paired_interval(after, before), len(after))
        )
    known = {change.name for change in found}
    for name, means in _means(run, STAGE, "/accuracy").items():
        if name not in known:
            first, last = _ends(means)
            found.append(StageChange(name, first, last, Interval(last - first, math.nan, math.nan, 0.95), 0))
    return tuple(found)


def _drift(kept: Sequence[Kept]) -> tuple[DriftAt, ...]:
    return tuple(
        DriftAt(one.step, mean_interval(one.values), float(one.values.sum() / one.tokens.sum()))
        for series in _of(kept, "drift").values()
        for one in series
    )


def _means(run: Run, prefix: str, suffix: str = "") -> dict[str, dict[int, float]]:
    """Return the evaluation metrics that are named so, by what stands between and by step."""
    if not run.rows["evaluations"]:
        return {}
    found = {}
    for metric in (str(name) for name in run.evaluations["metric"].values):
        column = evaluation(run, metric)
        if metric.startswith(prefix) and metric.endswith(suffix) and column is not None:
            pairs = zip(column[0].tolist(), column[1].tolist(), strict=True)
            means = {step: value for step, value in pairs if math.isfinite(value)}
            if means:
                found[metric.removeprefix(prefix).removesuffix(suffix)] = dict(sorted(means.items()))
    return found


def _ratio(after: float, before: float) -> float:
    # A log may say that a perplexity is 0, which none is: what it is a ratio to is then undefined.
    return after / before if before > 0 else math.nan


def _ends(means: Mapping[int, float]) -> tuple[float, float]:
    values = list(means.values())
    return values[0], values[-1]


def _curve(run: Run, kept: Sequence[Kept]) -> tuple[Point, ...]:
    accuracies = {step: one.accuracy for step, one in held_out_by_step(run).items()}
    base = accuracies.get(0, math.nan)
    forward = {one.step: float(one.values.mean()) for one in _of(kept, "drift").get("kl", [])}
    ratios = {name: _ratios(series) for name, series in _of(kept, "text").items()}
    for name, means in _means(run, PERPLEXITY).items():
        ratios.setdefault(name, {step: _ratio(value, _ends(means)[0]) for step, value in means.items()})
    lost = {
        name: {one.step: float((one.values - series[0].values).mean()) for one in series}
        for name, series in ((name, _of_the_same_prompts(series)) for name, series in _of(kept, "stage").items())
    }
    for name, means in _means(run, STAGE, "/accuracy").items():
        lost.setdefault(name, {step: value - _ends(means)[0] for step, value in means.items()})
    measured = [accuracies, forward, *ratios.values(), *lost.values()]
    return tuple(
        Point(
            step=step,
            gain=accuracies.get(step, math.nan) - base,
            forward_kl=forward.get(step, math.nan),
            perplexity_ratio={name: by_step[step] for name, by_step in ratios.items() if step in by_step},
            stage_difference={name: by_step[step] for name, by_step in lost.items() if step in by_step},
        )
        for step in sorted({step for by_step in measured for step in by_step})
    )


def _ratios(series: Sequence[Kept]) -> dict[int, float]:
    first = series[0]
    same = [one for one in series if one.digest == first.digest]
    return {one.step: perplexity_ratio(_losses(first), _losses(one)).value for one in same}
