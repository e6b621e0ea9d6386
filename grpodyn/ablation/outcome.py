"""From records to findings: arms at their own best rate, paired comparisons, and a verdict in words. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, stdev
from typing import Any, Literal

from grpodyn.ablation.plan import TaskPlan
from grpodyn.ablation.protocol import ALL_LINEAR, Contrast, Study
from grpodyn.ablation.records import Phase, Record
from grpodyn.ablation.results import ArmResult, Base, Comparison
from grpodyn.ablation.schedule import Find, Tuned, pending, tune
from grpodyn.statistics import (
    Interval,
    detectable_difference,
    mean_interval,
    paired_interval,
    paired_test,
    ratio_interval,
)

LEVEL = 0.95
_UNKNOWN = Interval(math.nan, math.nan, math.nan, LEVEL)


@dataclass(frozen=True)
class _Trained:
    """One arm's records at its best rate, by seed."""

    arm: str
    tuned: Tuned
    by_seed: Mapping[int, Record]
    failed: tuple[str, ...]
    unfinished: bool
    """Whether the protocol asks for trainings of it that have neither ended nor failed."""


class TaskOutcome:
    """What is known of one task.

    Args:
        study: the protocol, with the task's candidate in its comparisons.
        plan: the task's arms.
        find: looks a job up among the records.
    """

    def __init__(self, study: Study, plan: TaskPlan, find: Find) -> None:
        self._study = study
        self._plan = plan
        self._find = find
        choose, report = (_record(find(job)) for job in plan.base_jobs())
        self._base_choose = choose
        self._base = report
        self._arms = {name: self._trained(name) for name in study.arms if name in plan.arms}

    @property
    def missing(self) -> int:
        """Trainings that can start now, and those that wait for them, as far as is known."""
        arms = [name for name in self._study.arms if name in self._plan.arms]
        waiting = sum(
            len(self._study.seeds_of(name))
            for name in arms
            if self._arms[name].tuned.best is None and not self._arms[name].tuned.failed
        )
        return len(pending(self._study, arms, self._plan.job, self._find)) + waiting

    def base(self) -> Base | None:
        """Return the base on the split that arms are compared on, cooled as the tuning split asks for."""
        if self._base is None or self._base_choose is None:
            return None
        temperature = self._base_choose.best_temperature
        return Base(
            task=self._plan.name,
            accuracy=self._base.accuracy,
            greedy=self._base.greedy,
            best_temperature=temperature,
            best=float(self._base.by_temperature[f"{temperature:g}"]),
        )

    def arms(self) -> list[ArmResult]:
        """Return every arm, with what is known of it so far."""
        return [self._result(trained) for trained in self._arms.values()]

    def primary(self) -> list[tuple[Comparison, list[float]]]:
        """Return the primary comparisons, p not yet adjusted, with the differences that each is tested on."""
        return [(self._compare(contrast), self.differences(contrast)) for contrast in self._study.primary]

    def described(self) -> list[Comparison]:
        """Return every other arm beside all-linear: an interval, no p."""
        named = {arm for contrast in self._study.primary for arm in (contrast.a, contrast.b)}
        return [self._describe(name) for name in self._arms if name not in named and ALL_LINEAR in self._arms]

    def _trained(self, name: str) -> _Trained:
        tuned = tune(self._study.tuning, lambda seed, power: self._plan.job(name, "tune", seed, power), self._find)
        jobs: list[tuple[Phase, int, int]] = []
        if self._study.tuning is not None:
            jobs += [("tune", seed, power) for power in tuned.powers for seed in self._study.tuning.seeds]
        if tuned.best is not None:
            jobs += [("test", seed, tuned.best) for seed in self._study.seeds_of(name)]
        found = [(phase, seed, self._find(self._plan.job(name, phase, seed, power))) for phase, seed, power in jobs]
        errors = [outcome for _, _, outcome in found if isinstance(outcome, str)]
        by_seed = {seed: outcome for phase, seed, outcome in found if phase == "test" and isinstance(outcome, Record)}
        waiting = tuned.best is None and not tuned.failed
        unfinished = waiting or any(outcome is None for _, _, outcome in found)
        return _Trained(name, tuned, by_seed, tuple(dict.fromkeys(errors)), unfinished)

    def _result(self, of: _Trained) -> ArmResult:
        arm = self._plan.arms[of.arm]
        records = list(of.by_seed.values())
        variant = arm.at(min(of.by_seed, default=self._study.seeds[0]))
        steps = [self._steps_to_level(record) for record in records]
        reached = [step for step in steps if not math.isnan(step)]
        pass_at = {k: _mean([float(r.pass_at[k]) for r in records]) for k in (records[0].pass_at if records else {})}
        rate = self._plan.job(of.arm, "test", self._study.seeds[0], of.tuned.best or 0).learning_rate
        return ArmResult(
            task=self._plan.name,
            arm=of.arm,
            what=arm.what,
            trainable_params=variant.parameters,
            lora=variant.trains.get("lora"),
            learning_rate=rate if of.tuned.best is not None else math.nan,
            rates_tried={
                f"{self._plan.job(of.arm, 'tune', self._study.seeds[0], power).learning_rate:g}": value
                for power, value in sorted(of.tuned.accuracy.items())
            },
            at_edge=of.tuned.at_edge,
            seeds=tuple(sorted(of.by_seed)),
            accuracy=_over(records, lambda r: r.accuracy),
            greedy=_over(records, lambda r: r.greedy),
            best=_over(records, lambda r: r.best),
            pass_at=pass_at,
            gain_kept=self._gain_kept(of),
            steps_to_level=mean_interval(reached, LEVEL) if reached and len(reached) == len(steps) else _UNKNOWN,
            reached=len(reached),
            kl=_over(records, lambda r: r.kl),
            skill_gain=_over(records, lambda r: r.skill_gain),
            perplexity_ratio=self._perplexity_ratios(records),
            seconds=median(r.seconds for r in records) if records else math.nan,
            failed=of.failed,
        )

    def _perplexity_ratios(self, records: Sequence[Record]) -> dict[str, Interval]:
        base = self._base.perplexity if self._base is not None else {}
        return {
            text: mean_interval([float(record.perplexity[text]) / float(before) for record in records], LEVEL)
            for text, before in base.items()
            if records and all(text in record.perplexity for record in records)
        }

    def _gain_kept(self, of: _Trained) -> Interval:
        whole = self._arms.get(ALL_LINEAR)
        pairs = [] if whole is None or self._base is None else sorted(of.by_seed.keys() & whole.by_seed.keys())
        if not pairs or whole is None or self._base is None:
            return _UNKNOWN
        start = self._base.accuracy
        if of.arm == ALL_LINEAR:
            return Interval(1.0, 1.0, 1.0, LEVEL)
        return ratio_interval(
            [of.by_seed[seed].accuracy - start for seed in pairs],
            [whole.by_seed[seed].accuracy - start for seed in pairs],
            LEVEL,
        )

    def _steps_to_level(self, record: Record) -> float:
        whole = self._arms.get(ALL_LINEAR)
        if self._base_choose is None or whole is None or not whole.by_seed or not self._base_choose.curve:
            return math.nan
        start = self._base_choose.curve[0][1]
        end = _mean([other.curve[-1][1] for other in whole.by_seed.values() if other.curve])
        level = start + self._study.measure.level * (end - start)
        return next((float(step) for step, accuracy in record.curve if accuracy >= level), math.nan)

    def _pairs(self, a: str, b: str) -> tuple[list[float], list[float]]:
        first, second = self._arms.get(a), self._arms.get(b)
        if first is None or second is None:
            return [], []
        seeds = sorted(first.by_seed.keys() & second.by_seed.keys())
        return [first.by_seed[s].accuracy for s in seeds], [second.by_seed[s].accuracy for s in seeds]

    def _same_training(self, a: str, b: str) -> bool:
        arms = self._plan.arms
        return a in arms and b in arms and arms[a].variants == arms[b].variants

    def _unfinished(self, contrast: Contrast) -> bool:
        return any(arm.unfinished for name, arm in self._arms.items() if name in (contrast.a, contrast.b))

    def _compare(self, contrast: Contrast) -> Comparison:
        x, y = self._pairs(contrast.a, contrast.b)
        empty = Comparison(
            task=self._plan.name,
            a=contrast.a,
            b=contrast.b,
            test=contrast.test,
            seeds=len(x),
            difference=_UNKNOWN,
            margin=math.nan,
            p=math.nan,
            p_holm=math.nan,
            smallest_seen=math.nan,
            outcome="not tested",
            needs_seeds=None,
        )
        differences = self.differences(contrast)
        if not differences or self._base is None:
            return empty
        margin = contrast.margin * (_mean(y) - self._base.accuracy) if contrast.test == "not_worse" else 0.0
        shown = replace(empty, difference=paired_interval(x, y, LEVEL), margin=margin)
        if self._unfinished(contrast):
            # A test after every training would find something in the end: it is made once, with all seeds.
            return shown
        return replace(shown, p=one_sided(differences, "greater"), outcome="not separable")

    def differences(self, contrast: Contrast) -> list[float]:
        """Return, by seed, what is tested to be above 0: the gain of a minus the share of b's that it must reach."""
        x, y = self._pairs(contrast.a, contrast.b)
        if self._base is None or self._same_training(contrast.a, contrast.b):
            return []
        start = self._base.accuracy
        share = contrast.margin if contrast.test == "not_worse" else 0.0
        return [a - (start + (1 - share) * (b - start)) for a, b in zip(x, y, strict=True)]

    def _describe(self, name: str) -> Comparison:
        x, y = self._pairs(name, ALL_LINEAR)
        return Comparison(
            task=self._plan.name,
            a=name,
            b=ALL_LINEAR,
            test="descriptive",
            seeds=len(x),
            difference=paired_interval(x, y, LEVEL) if x else _UNKNOWN,
            margin=0.0,
            p=math.nan,
            p_holm=math.nan,
            smallest_seen=smallest_seen([a - b for a, b in zip(x, y, strict=True)], self._study.alpha),
            outcome="not tested",
            needs_seeds=None,
        )


def one_sided(differences: Sequence[float], alternative: Literal["greater", "less"]) -> float:
    """Return the p of a paired t test of differences against 0; nan where it cannot be known."""
    return paired_test(differences, [0.0] * len(differences), alternative=alternative).p


def smallest_seen(differences: Sequence[float], alpha: float) -> float:
    """Return the difference that so many seeds show in 8 of 10 studies, one-sided at `alpha`; nan of fewer than two."""
    if len(differences) < 2:
        return math.nan
    return detectable_difference(stdev(differences), len(differences), level=1 - alpha, two_sided=False)


def _record(outcome: Any) -> Record | None:
    return outcome if isinstance(outcome, Record) else None


def _over(records: Sequence[Record], what: Callable[[Record], float]) -> Interval:
    values = [value for record in records if not math.isnan(value := what(record))]
    return mean_interval(values, LEVEL) if values and len(values) == len(records) else _UNKNOWN


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
