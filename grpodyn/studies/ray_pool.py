"""The runs of a sweep as tasks of a Ray cluster: where and when each is trained is Ray's business.

The sweep's folder, and what its configs name by a path, must be at one path on every machine of the cluster.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpodyn
from grpodyn.errors import UsageError
from grpodyn.studies.child import STOPPED_AT_ONCE, Child, Outcome, outcome, start

_POLL_SECONDS = 0.2
_STOP = "stop"


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise UsageError("--on ray needs Ray, which is not installed: pip install 'grpodyn[sweep]'") from error
    return ray


def _init(ray: Any, address: str | None) -> None:
    """Start Ray, or join a cluster.

    Raises:
        UsageError: for whatever reason it does not; what it has started by then is ended.
    """
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="error")
    except Exception as error:
        # What Ray raises here is no list that can be known: of its own, of gRPC, OSError, subprocess' timeouts.
        with contextlib.suppress(Exception):
            ray.shutdown()
        said = " ".join(str(error).split()) or type(error).__name__
        if address is None:
            raise UsageError(
                f"Ray does not start on this machine ({type(error).__name__}: {said}); the sweep has begun nothing. A "
                "machine that is busy, or short of memory or of /dev/shm, makes it time out: try again when it is "
                "not, or after `ray stop`, which ends what is left of earlier starts; or leave --on ray out: runs are "
                "then processes of this machine, and need no Ray"
            ) from error
        raise UsageError(
            f"Ray cannot be reached at {address} ({type(error).__name__}: {said}); the sweep has begun nothing. See "
            "there with `ray status` that it runs and is of this version of Ray, or leave the address out to start Ray "
            "on this machine"
        ) from error


def run_as_task(child: Child, threads: int) -> tuple[int, float]:
    """Train one run inside a Ray task, and return the exit code of its process and the seconds that it took.

    It is stopped by files beside its log rather than by Ray's own cancelling: a cancelled task ends before the process
    that it has started has written its checkpoint.
    """
    waiting = list(zip(stop_files(child), (signal.SIGINT, signal.SIGINT, signal.SIGKILL), strict=True))
    if waiting[0][0].exists():
        # Asked to end while it was queued.
        return STOPPED_AT_ONCE, 0.0
    began = time.monotonic()
    # Ray has set CUDA_VISIBLE_DEVICES for this task.
    process = start(child, {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"})
    while process.poll() is None:
        while waiting and waiting[0][0].exists():
            process.send_signal(waiting.pop(0)[1])
        time.sleep(_POLL_SECONDS)
    return process.returncode, time.monotonic() - began


def stop_files(child: Child) -> list[Path]:
    """Return the files that ask a run to end, the more urgent the later."""
    return [child.log.with_suffix(f".{_STOP}{number}") for number in (1, 2, 3)]


def _forget_stops(child: Child) -> None:
    for stop in stop_files(child):
        stop.unlink(missing_ok=True)


class RayPool:
    """Hands every run to Ray at once, and learns from it when they have ended.

    Args:
        address: of the cluster; None starts Ray on this machine for as long as the sweep takes.
        threads: cores that a run asks for.
        gpus: that a run asks for.
        at_once: how many runs at a time at most; None leaves it to Ray.

    Raises:
        UsageError: Ray is not installed, does not start on this machine, or the cluster cannot be reached.
    """

    def __init__(self, address: str | None, threads: int, gpus: int, at_once: int | None) -> None:
        self._ray = _import_ray()
        _init(self._ray, address)
        self._threads = threads
        self._at_once = at_once
        # max_retries=0: a run that dies is reported; the next start of the sweep goes on with it.
        options = {"num_cpus": threads, "num_gpus": gpus, "max_retries": 0, "name": f"grpodyn {grpodyn.__version__}"}
        self._task = self._ray.remote(**options)(run_as_task)
        self._running: dict[Any, Child] = {}
        self._asked: dict[str, int] = {}

    @property
    def free(self) -> int:
        """Ray queues what it has no room for."""
        return 1 if self._at_once is None else self._at_once - len(self._running)

    def submit(self, child: Child) -> None:
        """Hand a run to Ray."""
        _forget_stops(child)
        self._running[self._task.remote(child, self._threads)] = child

    def ended(self, seconds: float) -> Iterator[tuple[Child, Outcome]]:
        """Wait for runs to end."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        for reference in done:
            child = self._running.pop(reference)
            asked = self._asked.pop(child.name, 0) > 0
            try:
                code, seconds_of_run = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                reason = " ".join(str(error).split())
                yield child, Outcome("interrupted") if asked else Outcome("failed", f"Ray: {reason}")
                continue
            _forget_stops(child)
            yield child, replace(outcome(child, code, asked), seconds=seconds_of_run)

    def interrupt(self) -> None:
        """Ask every run to end; what Ray has not started yet ends as soon as it begins."""
        for child in self._running.values():
            asked = self._asked[child.name] = self._asked.get(child.name, 0) + 1
            child.log.parent.mkdir(parents=True, exist_ok=True)
            stop_files(child)[min(asked, 3) - 1].touch()

    def close(self) -> None:
        """Let go of the cluster; a local one ends."""
        self._ray.shutdown()
