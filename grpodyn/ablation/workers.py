"""Where jobs are trained: in this process one after the other, or in several processes that each load the base once."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any, Protocol

from grpodyn.ablation.records import Job, Record
from grpodyn.errors import GrpodynError
from grpodyn.trace.manifest import utc_now
from grpodyn.training.parent import watch_parent


class Workers(Protocol):
    """Trains jobs."""

    @property
    def free(self) -> int:
        """How many more jobs can be taken now."""
        ...

    def submit(self, job: Job) -> None:
        """Take a job."""
        ...

    def finished(self) -> Iterator[tuple[Job, Record]]:
        """Wait until at least one job has ended, and give what has."""
        ...

    def close(self, *, at_once: bool = False) -> None:
        """Let go; `at_once` gives up what is being trained."""
        ...


class InProcess:
    """Trains in this process; the base of the last task stays loaded."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._waiting: list[Job] = []

    @property
    def free(self) -> int:
        """One job at a time."""
        return 1 - len(self._waiting)

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def finished(self) -> Iterator[tuple[Job, Record]]:
        """Train what was taken."""
        while self._waiting:
            job = self._waiting.pop(0)
            yield job, run_job(job, self._threads)

    def close(self, *, at_once: bool = False) -> None:
        """Nothing is held."""


class Processes:
    """Trains in several processes. One that dies (out of memory) fails its job, not the study."""

    def __init__(self, count: int, threads: int | None, gpus: Sequence[str] = ()) -> None:
        self._count = count
        self._threads = threads
        self._gpus = gpus
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[Record], Job] = {}

    @property
    def free(self) -> int:
        """As many as there are idle processes."""
        return self._count - len(self._running)

    def submit(self, job: Job) -> None:
        """Hand a job to an idle process."""
        if self._pool is None:
            # spawn: a forked child would inherit this process's threads and locks half-way through their work.
            context = multiprocessing.get_context("spawn")
            # Each process takes the next device as it starts; more processes than GPUs share them in turn.
            devices = context.Queue()
            for number in range(self._count):
                devices.put(self._gpus[number % len(self._gpus)] if self._gpus else None)
            self._pool = ProcessPoolExecutor(self._count, context, initializer=_begin, initargs=(os.getpid(), devices))
        self._running[self._pool.submit(run_job, job, self._threads)] = job

    def finished(self) -> Iterator[tuple[Job, Record]]:
        """Wait for one job at least."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            job = self._running.pop(future)
            try:
                yield job, future.result()
            except BrokenProcessPool:
                yield job, failed(job, "the process that trained it died; was memory short? Try fewer --workers", 0.0)
                self._discard()

    def _discard(self) -> None:
        """A broken pool takes no more jobs; those that were in it have failed and come back as such."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def close(self, *, at_once: bool = False) -> None:
        """End the processes."""
        if self._pool is None:
            return
        if at_once:
            for child in multiprocessing.active_children():
                child.terminate()
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        self._pool = None


def make_workers(count: int, threads: int | None, gpus: Sequence[str] = ()) -> Workers:
    """Return one process's or several processes' worth of workers, each with one of the GPUs if some are named."""
    if count == 1 and not gpus:
        return InProcess(threads)
    return Processes(count, threads, gpus)


# One a process: loading a base takes longer than many trainings of a small one.
_LOADED: dict[str, Any] = {}


def run_job(job: Job, threads: int | None) -> Record:
    """Train one job; what goes wrong with it becomes its record, so that the other arms go on.

    MemoryError and errors of the operating system pass: the next job would meet them too.
    """
    import torch  # noqa: PLC0415 - the parent of several workers never needs it

    from grpodyn.ablation.bench import Bench  # noqa: PLC0415

    started = time.perf_counter()
    try:
        bench = _LOADED.get(job.setup_key)
        if bench is None:
            _LOADED.clear()
            bench = _LOADED[job.setup_key] = Bench(job.setup)
        torch.set_num_threads(threads or (1 if bench.is_small else _torch_threads()))
        record: Record = bench.run(job)
    # What a training raises when its arm is to blame: refused configs, shapes, numbers, a device's memory.
    except (GrpodynError, RuntimeError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, GrpodynError) else f" ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
        return failed(job, reason, time.perf_counter() - started)
    return record


@cache
def _torch_threads() -> int:
    """As many as torch had chosen before the first job."""
    import torch  # noqa: PLC0415

    return torch.get_num_threads()


def failed(job: Job, reason: str, seconds: float) -> Record:
    """Return the record of a job that came to nothing."""
    nothing = math.nan
    return Record(
        key=job.key,
        setup=job.setup_key,
        task=job.task,
        arm=job.arm,
        phase=job.phase,
        seed=job.seed,
        power=job.power,
        learning_rate=job.learning_rate,
        parameters=job.parameters,
        split="",
        split_sha256="",
        prompts=0,
        accuracy=nothing,
        greedy=nothing,
        best_temperature=nothing,
        best=nothing,
        by_temperature={},
        pass_at={},
        kl=nothing,
        skill_gain=nothing,
        perplexity={},
        curve=(),
        seconds=seconds,
        cpu_seconds=nothing,
        error=reason,
        created_at=utc_now(),
        versions={},
    )


def _begin(parent: int, devices: Any) -> None:
    """Set up a worker: Ctrl-C is the parent's business, and without a parent there is no one to train for.

    Its device is chosen before torch first looks for one.
    """
    device = devices.get()
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch_parent(parent, lambda: os._exit(1))
