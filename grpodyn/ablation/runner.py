"""Carries out a protocol: trains what is pending, keeps every result, and says after each what is known."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

from grpodyn.ablation import schedule
from grpodyn.ablation.judging import conclude
from grpodyn.ablation.ledger import LEDGER, Ledger, read
from grpodyn.ablation.plan import TaskPlan
from grpodyn.ablation.prepare import Stopped, prepare
from grpodyn.ablation.records import Job, Record
from grpodyn.ablation.results import Ablation
from grpodyn.ablation.schedule import Outcome
from grpodyn.ablation.target import Target
from grpodyn.ablation.workers import Workers, make_workers
from grpodyn.trace.lock import WriterLock
from grpodyn.training.display import Display

_WRITE_SECONDS = 5.0


@dataclass(frozen=True)
class Limits:
    """How much is trained at once, and until when."""

    workers: int = 1
    threads: int | None = None
    """Torch threads of each; None is one for a small model on the CPU, else what torch chooses."""
    gpus: Sequence[str] = ()
    """As `CUDA_VISIBLE_DEVICES` names them, one a worker; none leaves it to torch."""
    max_minutes: float | None = None
    """No training is begun that would probably end later."""
    train: bool = True
    """False only reads what is there."""


class Observer(Display, Protocol):
    """Is shown how a study gets on; also shows the source runs."""

    def planned(self, plans: Sequence[TaskPlan], done: int, total: int) -> None:
        """Everything is prepared; `done` of about `total` trainings are there."""
        ...

    def begun(self, job: Job) -> None:
        """A training has begun."""
        ...

    def ended(self, job: Job, record: Record, done: int, total: int, left: float) -> None:
        """A training has ended; `left` seconds remain at this speed, nan if unknown."""
        ...

    def found(self, result: Ablation) -> None:
        """There is a new state of the result."""
        ...


@dataclass(frozen=True)
class Finished:
    """How a start of a study has ended."""

    result: Ablation | None
    """None if nothing was prepared yet."""
    why: str
    """`complete`, or why it has stopped."""


def carry_out(
    target: Target, limits: Limits, observer: Observer, *, results_in: Path, merge: Sequence[Path] = ()
) -> Finished:
    """Train what the protocol asks for and is not there yet.

    Every result is on disk before the next training begins, so that a kill loses only what was being trained.

    Args:
        target: the protocol and its folder.
        limits: how much at once, and until when.
        observer: is shown how it gets on.
        results_in: the folder of `ablation.json`.
        merge: ledgers of others, whose results count here too.

    Raises:
        DirectoryInUseError: another process trains into this folder.
        ConfigError, UnknownNameError: the protocol cannot be carried out.
        KeyboardInterrupt: the user has stopped it; what was finished is kept.
    """
    started = time.monotonic()
    target.folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock.acquire(target.folder)
    try:
        ledger = Ledger(target.folder / LEDGER)
        for path in merge:
            observer.say(f"{ledger.merge(read(path))} results taken over from {path}")
        try:
            plans = [prepare(target, task, observer) for task in target.study.tasks]
        except Stopped:
            return Finished(None, "stopped while the source run was training")
        study = _Study(target, plans, ledger, observer, results_in)
        observer.planned(plans, *study.progress())
        why = study.train(limits, started, lock) if limits.train else "only read"
        return Finished(study.publish(), why)
    finally:
        lock.release()


class _Study:
    """The loop and its state."""

    def __init__(
        self, target: Target, plans: Sequence[TaskPlan], ledger: Ledger, observer: Observer, results_in: Path
    ) -> None:
        self._target = target
        self._plans = plans
        self._ledger = ledger
        self._observer = observer
        self._results_in = results_in
        self._failed: dict[str, str] = {}
        self._seconds: list[float] = []
        self._published = -math.inf

    def find(self, job: Job) -> Outcome | None:
        """Look a job up among the results and among what has failed in this start."""
        found = self._ledger.result(job)
        return found if found is not None else self._failed.get(job.key)

    def pending(self) -> list[Job]:
        """What can be trained now, over all tasks, the most important first."""
        bases = [job for plan in self._plans for job in plan.base_jobs() if self.find(job) is None]
        of_tasks = [self._of_task(plan) for plan in self._plans]
        primary = [job for jobs, first in of_tasks for job in jobs[:first]]
        others = [job for jobs, first in of_tasks for job in jobs[first:]]
        return [*bases, *primary, *others]

    def _of_task(self, plan: TaskPlan) -> tuple[list[Job], int]:
        study = self._target.study.testing(plan.candidate)
        jobs = schedule.pending(study, _arms(self._target, plan), plan.job, self.find)
        return jobs, sum(job.arm in study.primary_arms for job in jobs)

    def progress(self) -> tuple[int, int]:
        """Return how many trainings are done and about how many there will be."""
        done = len(self._ledger) + len(self._failed)
        return done, done + sum(self._remaining(plan) for plan in self._plans)

    def _remaining(self, plan: TaskPlan) -> int:
        study, arms = self._target.study.testing(plan.candidate), _arms(self._target, plan)
        bases = sum(self.find(job) is None for job in plan.base_jobs())
        return bases + schedule.remaining(study, arms, plan.job, self.find)

    def train(self, limits: Limits, started: float, lock: WriterLock) -> str:
        """Train until nothing is pending or time is up; return which."""
        workers = make_workers(limits.workers, limits.threads, limits.gpus)
        running: dict[str, Job] = {}
        finished = False
        try:
            while True:
                todo = [job for job in self.pending() if job.key not in running]
                late = self._is_late(limits, started)
                if not late:
                    self._start(workers, todo, running)
                if not running:
                    finished = True
                    return "time is up" if todo else "complete"
                for job, record in workers.finished():
                    del running[job.key]
                    self._keep(job, record, limits.workers)
                    lock.beat()
        finally:
            workers.close(at_once=not finished)

    def _start(self, workers: Workers, todo: list[Job], running: dict[str, Job]) -> None:
        for job in todo[: workers.free]:
            self._observer.begun(job)
            workers.submit(job)
            running[job.key] = job

    def _is_late(self, limits: Limits, started: float) -> bool:
        if limits.max_minutes is None:
            return False
        expected = median(self._seconds) if self._seconds else 0.0
        return time.monotonic() - started + expected > 60 * limits.max_minutes

    def _keep(self, job: Job, record: Record, workers: int) -> None:
        self._ledger.add(record)
        if record.error is not None:
            self._failed[job.key] = record.error
        elif job.trains:
            self._seconds.append(record.seconds)
        done, total = self.progress()
        left = (total - done) * median(self._seconds) / workers if self._seconds else math.nan
        self._observer.ended(job, record, done, total, left)
        if time.monotonic() - self._published > _WRITE_SECONDS:
            self._observer.found(self.publish())

    def publish(self) -> Ablation:
        """Write what is known so far."""
        result = conclude(
            self._target.study,
            self._plans,
            self.find,
            protocol_sha256=self._target.protocol_sha256,
            trained=len(self._ledger),
        )
        result.write(self._results_in)
        self._published = time.monotonic()
        return result


def _arms(target: Target, plan: TaskPlan) -> list[str]:
    return [arm for arm in target.study.arms if arm in plan.arms]
