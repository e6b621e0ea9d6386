"""From finished runs to a result: intervals over seeds, paired differences, claims and what they come to. No torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from grpodyn.config.validation import validate
from grpodyn.statistics import Interval, holm, mean_interval, non_inferiority, paired_test
from grpodyn.studies.expand import PlannedRun
from grpodyn.studies.index import Index
from grpodyn.studies.measures import JUDGED, is_factor
from grpodyn.studies.results import ArmResult, ContrastResult, Difference, SweepResult, SweptRun
from grpodyn.studies.study import Contrast, SweepStudy
from grpodyn.trace import strict_json

Values = Mapping[str, Mapping[int, Mapping[str, float]]]
"""Arm → seed → metric → value."""

_NOTHING = Interval(math.nan, math.nan, math.nan, 0.95)
_WAITS = "as it is judged once all seeds are there"


def conclude(
    study: SweepStudy,
    index: Index,
    planned: Sequence[PlannedRun],
    measured: Mapping[str, Mapping[str, float]],
    versions: Mapping[str, str],
) -> SweepResult:
    """Return what is known of a sweep.

    Args:
        study: the study.
        index: what has become of each run.
        planned: its runs.
        measured: run → metric → value, of the runs that are done.
        versions: of what trained.
    """
    values: dict[str, dict[int, Mapping[str, float]]] = {arm: {} for arm in study.every_arm()}
    for run in planned:
        if run.name in measured:
            values[run.arm][run.seed] = measured[run.name]
    arms = [_arm(study, arm, of_seed) for arm, of_seed in values.items()]
    differences = _differences(study, values)
    contrasts = _contrasts(study, values)
    entries = index.entries
    failed = [entry for entry in entries if entry.state == "failed"]
    return SweepResult(
        name=study.name,
        question=study.question,
        reference=study.reference_arm,
        arms=arms,
        differences=differences,
        contrasts=contrasts,
        reading=_reading(study, values, differences, contrasts),
        notes=_notes(study, arms, failed_errors={entry.name: entry.error or "" for entry in failed}),
        runs=[
            SweptRun(e.name, e.arm, e.seed, e.state, e.error, round(e.seconds, 1), measured.get(e.name, {}))
            for e in entries
        ],
        missing=sum(entry.state != "done" for entry in entries),
        failed=len(failed),
        study=study.model_dump(mode="json"),
        settings=list(index.settings),
        configs_sha256=_digest(planned),
        versions=versions,
    )


def judge_again(result: SweepResult) -> SweepResult:
    """Return a result with its claims judged anew from what its runs came to, as one that was written before is read.

    Raises:
        ConfigError: its study is none that this version can read.
    """
    study = validate(SweepStudy, dict(result.study), f"the study in the result of {result.name}")
    values: dict[str, dict[int, Mapping[str, float]]] = {arm: {} for arm in study.every_arm()}
    for run in result.runs:
        if run.values:
            values[run.arm][run.seed] = run.values
    contrasts = _contrasts(study, values)
    return replace(result, contrasts=contrasts, reading=_reading(study, values, result.differences, contrasts))


def _reading(
    study: SweepStudy, values: Values, differences: Sequence[Difference], contrasts: Sequence[ContrastResult]
) -> list[str]:
    if not study.contrasts:
        return _beside_reference(study, values, differences)
    return [_sentence(one, waits=not _whole(study, values, one.a, one.b)) for one in contrasts]


def _whole(study: SweepStudy, values: Values, *arms: str) -> bool:
    return all(seed in values[arm] for arm in arms for seed in study.seeds)


def _digest(planned: Sequence[PlannedRun]) -> str:
    whole = [[run.name, run.config.to_record()] for run in planned]
    return hashlib.sha256(strict_json.dumps(whole).encode()).hexdigest()


def _arm(study: SweepStudy, arm: str, of_seed: Mapping[int, Mapping[str, float]]) -> ArmResult:
    metrics = dict.fromkeys(metric for values in of_seed.values() for metric in values)
    found: dict[str, Interval] = {}
    counts: dict[str, int] = {}
    for metric in metrics:
        numbers = [values[metric] for values in of_seed.values() if math.isfinite(values.get(metric, math.nan))]
        if numbers:
            counts[metric] = len(numbers)
            interval = mean_interval(_scaled(metric, numbers))
            found[metric] = _unscaled(metric, interval)
    return ArmResult(arm, study.every_arm()[arm], tuple(of_seed), found, counts)


def _scaled(metric: str, numbers: Sequence[float]) -> list[float]:
    return [math.log(number) for number in numbers] if is_factor(metric) else list(numbers)


def _unscaled(metric: str, interval: Interval) -> Interval:
    if not is_factor(metric):
        return interval
    value, low, high = (float(np.exp(end)) for end in (interval.value, interval.low, interval.high))
    return Interval(value, low, high, interval.level)


def _pairs(values: Values, a: str, b: str, metric: str) -> tuple[list[float], list[float]]:
    """Return the outcomes of both arms for the seeds that both have, on the scale on which they are compared."""
    seeds = [seed for seed in values[a] if seed in values[b]]
    both = [(values[a][seed].get(metric, math.nan), values[b][seed].get(metric, math.nan)) for seed in seeds]
    known = [(x, y) for x, y in both if math.isfinite(x) and math.isfinite(y)]
    return _scaled(metric, [x for x, _ in known]), _scaled(metric, [y for _, y in known])


def _scale(metric: str) -> str:
    return "factor" if is_factor(metric) else "difference"


def _differences(study: SweepStudy, values: Values) -> list[Difference]:
    reference = study.reference_arm
    found = []
    for arm in study.every_arm():
        if arm == reference:
            continue
        for metric in dict.fromkeys(metric for of_seed in values[arm].values() for metric in of_seed):
            x, y = _pairs(values, arm, reference, metric)
            if x:
                test = paired_test(x, y)
                difference = _unscaled(metric, test.difference)
                found.append(Difference(arm, reference, metric, _scale(metric), difference, test.p, test.n))
    return found


def _contrasts(study: SweepStudy, values: Values) -> list[ContrastResult]:
    raw = [_contrast(one, values, judged=_whole(study, values, one.a, one.b)) for one in study.contrasts]
    corrected = holm([one.p for one in raw])
    # That the opposite holds is a finding too, and asks for the same correction.
    opposite = holm([one.opposite_p for one in raw])
    both = [
        replace(one, p_holm=p, opposite_p_holm=against)
        for one, p, against in zip(raw, corrected, opposite, strict=True)
    ]
    return [replace(one, outcome=_outcome(one, study.alpha)) for one in both]


def _contrast(one: Contrast, values: Values, *, judged: bool) -> ContrastResult:
    """Return a claim beside what was measured, with its p only if it is to be judged.

    A test after every run would find something in the end: it is made once, with all seeds.
    """
    x, y = _pairs(values, one.a, one.b, one.metric)
    p, opposite_p, difference = math.nan, math.nan, _NOTHING
    if x:
        higher, lower = paired_test(x, y, alternative="greater"), paired_test(x, y, alternative="less")
        difference = _unscaled(one.metric, higher.difference)
        if judged:
            p, opposite_p = (higher.p, lower.p) if one.better == "higher" else (lower.p, higher.p)
    equal_p, equal_difference = math.nan, None
    if one.equal is not None:
        u, v = _pairs(values, one.a, one.b, one.equal)
        if u:
            equal = non_inferiority(u, v, one.margin)
            equal_p = equal.p if judged else math.nan
            equal_difference = _unscaled(one.equal, equal.difference)
    return ContrastResult(
        a=one.a,
        b=one.b,
        metric=one.metric,
        better=one.better,
        scale=_scale(one.metric),
        difference=difference,
        p=p,
        p_holm=math.nan,
        opposite_p=opposite_p,
        opposite_p_holm=math.nan,
        equal=one.equal,
        equal_difference=equal_difference,
        equal_p=equal_p,
        margin=one.margin,
        n=len(x),
        outcome="",
    )


def _outcome(one: ContrastResult, alpha: float) -> str:
    if math.isnan(one.p_holm):
        return "not decided"
    if one.p_holm >= alpha:
        return "refuted" if one.opposite_p_holm < alpha else "not shown"
    if one.equal is None or one.equal_p < alpha:
        return "shown"
    # What was not measured, or has no spread, is no loss.
    return "not decided" if math.isnan(one.equal_p) else "shown, at a loss"


def _beside_reference(study: SweepStudy, values: Values, differences: Sequence[Difference]) -> list[str]:
    """Return what a study without claims has found: every arm beside the reference, two-sided, by Holm over them."""
    measured = {one.metric for one in differences}
    metric = next((name for name in JUDGED if name in measured), None)
    beside = [one for one in differences if one.metric == metric]
    said = []
    waits = {one.arm for one in beside if not _whole(study, values, one.arm, one.reference)}
    for one, p in zip(beside, holm([math.nan if one.arm in waits else one.p for one in beside]), strict=True):
        d = one.difference
        found = f"{one.arm} against {one.reference}: {metric} {d.value:+.3f}"
        if one.arm in waits:
            said.append(f"{found} over {one.n} seeds so far, {_WAITS}")
            continue
        if math.isnan(p):
            said.append(f"{found}, which {one.n} paired seeds cannot judge")
            continue
        outcome = "differs" if p < study.alpha else "not told apart"
        said.append(f"{found} [{d.low:+.3f}, {d.high:+.3f}] over {one.n} seeds, p = {p:.2g} by Holm: {outcome}")
    return said


def _sentence(one: ContrastResult, *, waits: bool = False) -> str:
    unit = "×" if one.scale == "factor" else ""
    if waits:
        so_far = f" {unit}{_figure(one.difference.value, one.scale)} over {one.n} seeds so far" if one.n else ""
        return f"{one.a} against {one.b}: {one.metric}{so_far}: not decided, {_WAITS}"
    if math.isnan(one.p_holm):
        return (
            f"{one.a} against {one.b} in {one.metric}: not decided, as {one.n} paired seeds show no spread to judge by"
        )
    d = one.difference
    other = {"higher": "lower", "lower": "higher"}[one.better]
    against = f", {other} with p = {one.opposite_p_holm:.2g}" if one.outcome == "refuted" else ""
    said = (
        f"{one.a} against {one.b}: {one.metric} {unit}{_figure(d.value, one.scale)} "
        f"[{_figure(d.low, one.scale)}, {_figure(d.high, one.scale)}] over {one.n} seeds, "
        f"{one.better} with p = {one.p_holm:.2g}: {one.outcome}{against}"
    )
    if one.equal is None:
        return said
    if one.equal_difference is None:
        return f"{said}; {one.equal} was not measured"
    e = one.equal_difference
    beside = f"{said}; {one.equal} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"
    if math.isnan(one.equal_p):
        return f"{beside}, which has no spread to judge by"
    return f"{beside}, worse by less than {one.margin:g} with p = {one.equal_p:.2g}"


def _figure(value: float, scale: str) -> str:
    return f"{value:.3f}" if scale == "factor" else f"{value:+.3f}"


def _notes(study: SweepStudy, arms: Sequence[ArmResult], failed_errors: Mapping[str, str]) -> list[str]:
    notes = [f"{name} has failed: {error}" for name, error in failed_errors.items()]
    for arm in arms:
        lacking = len(study.seeds) - len(arm.seeds)
        if lacking:
            notes.append(f"{arm.arm}: {lacking} of {len(study.seeds)} seeds are not there yet")
        short = [metric for metric, count in arm.counts.items() if "@" in metric and count < len(arm.seeds)]
        if short:
            level = short[0].split("@", 1)[1]
            notes.append(f"{arm.arm}: only {arm.counts[short[0]]} of {len(arm.seeds)} runs come as far as {level}")
        if study.at is not None and arm.seeds and not any("@" in metric for metric in arm.counts):
            notes.append(f"{arm.arm}: no run comes as far as {study.at.metric}={study.at.value:g}")
    return notes
