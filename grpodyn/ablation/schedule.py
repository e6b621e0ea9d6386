"""Which trainings come next: a pure function of the protocol and of what is already known.

Per arm: the learning rates of the grid on the tuning seeds, one more rate while the best one lies at the grid's edge,
then the best rate on the test seeds. Arms of the primary comparisons come first, so that a study that is stopped early
has answered most of its question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grpodyn.ablation.protocol import Study, Tuning
from grpodyn.ablation.records import Job, Phase, Record

Outcome = Record | str
"""A record, or why the training failed."""
Find = Callable[[Job], Outcome | None]
MakeJob = Callable[[str, Phase, int, int], Job]
"""(arm, phase, seed, power) → job."""


@dataclass(frozen=True)
class Tuned:
    """What tuning an arm has come to."""

    powers: tuple[int, ...]
    """The grid as far as it was tried."""
    accuracy: dict[int, float]
    """Mean over the tuning seeds by power; nan where a training failed."""
    best: int | None
    """None while rates are missing, and for good if every training failed."""
    missing: tuple[Job, ...]
    at_edge: bool
    """Whether the best rate lies at the edge of a grid that may not grow any more."""

    @property
    def failed(self) -> bool:
        """Whether there is nothing left to try and no rate worked."""
        return self.best is None and not self.missing


def tune(tuning: Tuning | None, jobs: Callable[[int, int], Job], find: Find) -> Tuned:
    """Return where tuning one arm stands.

    Args:
        tuning: the protocol's; None keeps to the rule's rate.
        jobs: (seed, power) → the tuning job.
        find: looks a job up among what is known.
    """
    if tuning is None:
        return Tuned((0,), {}, 0, (), at_edge=False)
    powers = list(tuning.powers)
    for grown in range(tuning.extensions + 1):
        accuracy, missing = _measured(tuning.seeds, powers, jobs, find)
        if missing:
            return Tuned(tuple(powers), accuracy, None, tuple(missing), at_edge=False)
        known = {power: value for power, value in accuracy.items() if not math.isnan(value)}
        if not known:
            return Tuned(tuple(powers), accuracy, None, (), at_edge=False)
        # Of equal rates the one nearest to the rule, then the smaller one.
        best = max(known, key=lambda power: (known[power], -abs(power), -power))
        edge = best in (min(powers), max(powers))
        if not edge or grown == tuning.extensions:
            return Tuned(tuple(powers), accuracy, best, (), at_edge=edge)
        powers = sorted([*powers, best + 1 if best == max(powers) else best - 1])
    raise AssertionError("the loop above always returns")  # pragma: no cover


def _measured(
    seeds: Iterable[int], powers: Iterable[int], jobs: Callable[[int, int], Job], find: Find
) -> tuple[dict[int, float], list[Job]]:
    accuracy: dict[int, float] = {}
    missing: list[Job] = []
    for power in powers:
        wanted = [jobs(seed, power) for seed in seeds]
        found = [find(job) for job in wanted]
        missing += [job for job, outcome in zip(wanted, found, strict=True) if outcome is None]
        values = [outcome.accuracy if isinstance(outcome, Record) else math.nan for outcome in found]
        # A rate at which one seed broke down is no rate to choose, so its mean is nan too.
        accuracy[power] = sum(values) / len(values)
    return accuracy, missing


def pending(study: Study, arms: Sequence[str], jobs: MakeJob, find: Find) -> list[Job]:
    """Return the trainings of one task that can start now, the most important first.

    Args:
        study: the protocol.
        arms: the arms that this task can have.
        jobs: makes a job.
        find: looks a job up among what is known.
    """
    ordered = [arm for arm in study.primary_arms if arm in arms]
    ordered += [arm for arm in arms if arm not in ordered]
    tuning: list[Job] = []
    testing: list[Job] = []
    for arm in ordered:
        tuned = tune(study.tuning, lambda seed, power, arm=arm: jobs(arm, "tune", seed, power), find)  # type: ignore[misc]
        tuning += tuned.missing
        if tuned.best is not None:
            wanted = [jobs(arm, "test", seed, tuned.best) for seed in study.seeds_of(arm)]
            testing += [job for job in wanted if find(job) is None]
    # Two arms may be one training under two names: it runs once.
    unique: dict[str, Job] = {}
    primary = set(study.primary_arms)
    for job in sorted([*tuning, *testing], key=lambda job: job.arm not in primary):
        unique.setdefault(job.key, job)
    return list(unique.values())


def remaining(study: Study, arms: Sequence[str], jobs: MakeJob, find: Find) -> int:
    """Return how many trainings one task still takes, if no grid grows any more.

    Args: those of `pending`.
    """
    found = 0
    for arm in arms:
        tuned = tune(study.tuning, lambda seed, power, arm=arm: jobs(arm, "tune", seed, power), find)  # type: ignore[misc]
        found += len(tuned.missing)
        if tuned.best is not None:
            found += sum(find(jobs(arm, "test", seed, tuned.best)) is None for seed in study.seeds_of(arm))
        elif not tuned.failed:
            found += len(study.seeds_of(arm))
    return found


def total(study: Study, arms: Sequence[str]) -> int:
    """Return how many trainings one task takes from its beginning, if no grid grows: what a study costs."""
    tuning = len(study.tuning.seeds) * len(study.tuning.powers) if study.tuning else 0
    return sum(tuning + len(study.seeds_of(arm)) for arm in arms)
